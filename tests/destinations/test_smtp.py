"""How each end of a mail's submission is told, over real SMTP: to the mail sink behind the fault proxy.

Mails are counted in the sink's own mailbox. What no sink does, a scripted server does.
"""

import asyncio
import smtplib
from collections.abc import Iterator
from typing import Any

import pytest
from scripted import KEY, ScriptedCall

from amends.core.failures import Ambiguous, CallEnded, Interval, NotSent, Rejected
from amends.core.identity import part_key
from amends.destinations import smtp
from amends.destinations.smtp import Mail, SmtpClient, key_of, message_id
from amends.ports.destination import NEVER_LEFT, really_sent
from amends.testing.rehearsal.world import RehearsalDestination, World

pytestmark = pytest.mark.requirement("R17", "R23")

MAIL = Mail(sender="shop@x.invalid", to="ann@x.invalid", subject="Your order", text="On its way.\n.dot\n")
ID = message_id(KEY, "shop.invalid")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("mail"), destinations=("mail",)) as opened:
        yield opened


@pytest.fixture
def sink(world: World) -> RehearsalDestination:
    world.reset()
    return world.mail


def client(sink: RehearsalDestination) -> SmtpClient:
    return SmtpClient(*sink.smtp_address, domain="shop.invalid")


async def ended(sender: SmtpClient, call: ScriptedCall | None = None, mail: Mail = MAIL) -> CallEnded:
    with pytest.raises(CallEnded) as caught:
        await sender.send(call or ScriptedCall(), mail)
    return caught.value


def mails(sink: RehearsalDestination) -> int:
    return sink.effects(message_id=ID)["messages"]


async def test_a_mail_carries_the_key_as_its_message_id_and_is_told_with_the_servers_own_words(
    sink: RehearsalDestination,
) -> None:
    call = ScriptedCall()
    taken = await client(sink).send(call, MAIL)
    assert (taken.code, taken.message_id, key_of(taken.message_id)) == (250, ID, KEY)
    assert taken.reply.startswith("OK queued as msg_")
    assert (mails(sink), really_sent(call.sends)) == (1, [smtp.WHAT])


@pytest.mark.requirement("R5")
async def test_a_second_mail_of_one_attempt_is_another_mail(sink: RehearsalDestination) -> None:
    call = ScriptedCall()
    first, second = [await client(sink).send(call, MAIL) for _ in range(2)]
    assert (key_of(first.message_id), key_of(second.message_id)) == (KEY, part_key(KEY, "send 2"))


@pytest.mark.parametrize("mode", ["drop_response", "cut", pytest.param("hang", marks=pytest.mark.slow)])
async def test_a_lost_reply_to_the_data_is_unknown_and_the_mail_is_there_once(
    sink: RehearsalDestination, mode: str
) -> None:
    sink.fault(mode)
    call = ScriptedCall(left_s=lambda: 5.0)
    sending = asyncio.ensure_future(ended(client(sink), call))
    if mode == "hang":  # the budget ends it; here the client is sure to wait already
        await asyncio.to_thread(sink.wait_held)
    end = await sending
    assert isinstance(end, Ambiguous)
    assert (mails(sink), really_sent(call.sends)) == (1, [smtp.WHAT])
    assert end.interval is (Interval.EXECUTION if mode == "hang" else None)


async def test_a_lost_mail_is_unknown_too_since_the_reply_alone_could_tell(sink: RehearsalDestination) -> None:
    sink.fault("drop_request")
    end = await ended(client(sink))
    assert (type(end), mails(sink)) == (Ambiguous, 0)


async def test_a_mail_that_arrives_after_the_client_gave_up_was_unknown(sink: RehearsalDestination) -> None:
    sink.fault("late", hold=True)
    end = await ended(client(sink))
    assert (type(end), mails(sink)) == (Ambiguous, 0)
    await asyncio.to_thread(sink.release)
    assert mails(sink) == 1


@pytest.mark.parametrize("mode", ["refuse", "refuse_connect"])
async def test_a_connection_that_does_not_come_about_never_left(sink: RehearsalDestination, mode: str) -> None:
    sink.fault(mode)
    call = ScriptedCall()
    end = await ended(client(sink), call)
    assert (type(end), call.sends) == (NotSent, [NEVER_LEFT + smtp.WHAT])
    assert not sink.arrivals()


@pytest.mark.parametrize(("status", "retryable"), [(451, True), (554, False)])
async def test_a_refusal_of_the_data_is_certain_and_only_4yz_may_be_tried_later(
    sink: RehearsalDestination, status: int, retryable: bool
) -> None:
    sink.control(next_status=status)
    end = await ended(client(sink))
    assert isinstance(end, Rejected)
    assert (end.status, end.retryable, mails(sink)) == (status, retryable, 0)


async def test_a_budget_that_ends_before_the_closing_dot_leaves_nothing(sink: RehearsalDestination) -> None:
    looks = iter([30.0, 30.0])
    call = ScriptedCall(left_s=lambda: next(looks, 0.0))  # spent at the look before the dot
    end = await ended(client(sink), call)
    assert (type(end), call.sends) == (NotSent, [NEVER_LEFT + smtp.WHAT])
    assert not sink.arrivals()


@pytest.mark.parametrize(
    "changed",
    [
        {"to": "ann@x.invalid>\r\nRCPT TO:<eve@x.invalid"},
        {"to": "ann@x.invalid, eve@x.invalid"},
        {"sender": "ünn@x.invalid"},
        {"subject": "hello\r\nBcc: eve@x.invalid"},
        {"text": "x" * smtp.MESSAGE_BYTES_MAX},
        {"text": "\ud800"},
    ],
)
async def test_what_cannot_be_one_plain_mail_is_refused_before_anything_leaves(
    sink: RehearsalDestination, changed: dict[str, Any]
) -> None:
    fields = {name: getattr(MAIL, name) for name in Mail.__slots__}
    call = ScriptedCall()
    end = await ended(client(sink), call, Mail(**{**fields, **changed}))
    assert (type(end), end.code, call.sends) == (NotSent, "request_refused", [NEVER_LEFT + smtp.WHAT])
    assert not sink.proxy_log()


@pytest.mark.parametrize("text", ["a\r\n.\r\nMAIL FROM:<eve@x.invalid>\r\n", "a\n.\nb", "a\r.\rb", "a\r\n.\nb", "."])
async def test_no_text_ends_its_mail_early(sink: RehearsalDestination, text: str) -> None:
    fields = {name: getattr(MAIL, name) for name in Mail.__slots__}
    await client(sink).send(ScriptedCall(), Mail(**{**fields, "text": text}))
    assert (mails(sink), sum(sink.effects().values())) == (1, 1)


def test_a_domain_that_cannot_stand_in_a_message_id_is_refused() -> None:
    with pytest.raises(ValueError, match="Message-ID"):
        SmtpClient("127.0.0.1", 25, domain="x>\r\n")


async def said(script: dict[str, bytes], *, call: ScriptedCall | None = None) -> CallEnded:
    """How a submission ends to a server that answers one verb as ``script`` says and leaves; '.' ends the data."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = {"": b"220 x\r\n", "EHLO": b"250-x\r\n250 OK\r\n", "DATA": b"354 go\r\n"} | script
        line, verb, data = b"first", "", False
        try:
            while line:
                writer.write(b"" if data and verb != "." else replies.get(verb, b"250 OK\r\n"))
                if verb in script:
                    break
                data = verb == "DATA" or (data and verb != ".")
                line = await reader.readline()
                verb = line.strip().decode() if data else line[:4].decode().strip()
        except ConnectionError:
            pass
        finally:
            writer.close()
            left.set()

    left = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return await ended(SmtpClient("127.0.0.1", port), call)
    finally:
        await left.wait()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("verb", "reply", "kind"),
    [
        ("", b"554 no service\r\n", Rejected),
        ("", b"", NotSent),
        ("", b"HTTP/1.1 400\r\n", NotSent),
        ("EHLO", b"421 later\r\n", Rejected),
        ("MAIL", b"550 no\r\n", Rejected),
        ("RCPT", b"550-no\r\n550 such user\r\n", Rejected),
        ("RCPT", b"25", NotSent),
        ("DATA", b"250 OK\r\n", NotSent),
        ("DATA", b"", NotSent),
        (".", b"", Ambiguous),
        (".", b"250-OK\r\n", Ambiguous),
        (".", b"354 more\r\n", Ambiguous),
        (".", b"nonsense\r\n", Ambiguous),
        (".", b"2" * (smtp.LINE_BYTES_MAX + 10) + b"\r\n", Ambiguous),
        (".", b"250-on\r\n" * (smtp.REPLY_LINES_MAX + 1), Ambiguous),
    ],
)
async def test_before_the_closing_dot_nothing_happened_and_after_it_only_a_whole_reply_is_certain(
    verb: str, reply: bytes, kind: type[CallEnded]
) -> None:
    call = ScriptedCall()
    end = await said({verb: reply}, call=call)
    assert type(end) is kind, end.reason
    assert bool(really_sent(call.sends)) is (kind is not NotSent)


def test_the_sink_takes_from_the_standard_librarys_client_what_ours_would_send(sink: RehearsalDestination) -> None:
    content = smtp._content(MAIL, ID, date="Mon, 30 Nov 2026 12:00:00 -0000")
    with smtplib.SMTP(*sink.direct_smtp_address, timeout=5) as reference:
        reference.sendmail(MAIL.sender, [MAIL.to], content.replace(b"\r\n..", b"\r\n."))
    assert mails(sink) == 1

"""The mail sink and the SMTP side of the fault proxy, over real SMTP."""

import smtplib
from email.message import EmailMessage

import httpx
import pytest

from amends.testing.rehearsal.world import RehearsalDestination, World

DESTINATIONS = ("mail",)
ID = "<op_1@amends.invalid>"
WAIT_S = 5.0
pytestmark = pytest.mark.requirement("R23", "R56")


@pytest.fixture
def mail(world: World) -> RehearsalDestination:
    return world.mail


def message(subject: str = "Your refund") -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "shop@x.invalid", "ann@x.invalid", subject
    made["Message-ID"], made["Idempotency-Key"] = ID, "k1"
    made.set_content("USD 85.00 is on its way.\n.a line that starts with a dot\n")
    return made


def send(address: tuple[str, int]) -> dict[str, tuple[int, bytes]]:
    with smtplib.SMTP(*address, timeout=WAIT_S) as client:
        return client.send_message(message())


def found(http: httpx.Client, mail: RehearsalDestination) -> list[dict[str, object]]:
    answer = http.get(f"{mail.url}/messages", params={"message_id": ID})
    messages: list[dict[str, object]] = answer.json()["messages"]
    return messages


def test_message_is_found_by_its_message_id(http: httpx.Client, mail: RehearsalDestination) -> None:
    assert found(http, mail) == []
    send(mail.smtp_address)
    (kept,) = found(http, mail)
    assert (kept["message_id"], kept["to"], kept["subject"]) == (ID, ["ann@x.invalid"], "Your refund")
    assert (kept["from"], kept["account"]) == ("shop@x.invalid", "shop@x.invalid")
    assert "\n.a line that starts with a dot" in str(kept["body"])
    assert mail.effects(message_id=ID) == {"messages": 1}
    assert [(row["method"], row["path"], row["key"]) for row in mail.arrivals()] == [("DATA", "ann@x.invalid", "k1")]


def test_mailbox_keeps_duplicates(http: httpx.Client, mail: RehearsalDestination) -> None:
    send(mail.direct_smtp_address)
    send(mail.direct_smtp_address)
    assert len(found(http, mail)) == 2


def test_one_session_carries_several_messages(mail: RehearsalDestination) -> None:
    with smtplib.SMTP(*mail.smtp_address, timeout=WAIT_S) as client:
        client.send_message(message("one"))
        client.send_message(message("two"))
    assert mail.effects()["messages"] == 2
    assert mail.effects(subject="two")["messages"] == 1


@pytest.mark.requirement("R22")
def test_accepted_mail_may_not_be_found_yet(http: httpx.Client, mail: RehearsalDestination) -> None:
    mail.control(index_lag_ms=60_000)
    send(mail.direct_smtp_address)
    assert found(http, mail) == []
    assert mail.effects()["messages"] == 1
    mail.advance_clock(60_000)
    assert len(found(http, mail)) == 1


def test_refusing_reply_can_be_forced(mail: RehearsalDestination) -> None:
    mail.control(next_status=451)
    with pytest.raises(smtplib.SMTPDataError) as refused:
        send(mail.direct_smtp_address)
    assert refused.value.smtp_code == 451
    assert mail.effects()["messages"] == 0
    send(mail.direct_smtp_address)
    assert mail.effects()["messages"] == 1


@pytest.mark.parametrize(
    ("mode", "options", "error", "effects"),
    [
        ("refuse", {}, (OSError,), 0),
        ("refuse_connect", {}, (ConnectionRefusedError,), 0),
        ("drop_request", {}, (smtplib.SMTPServerDisconnected,), 0),
        ("drop_response", {}, (smtplib.SMTPServerDisconnected,), 1),
        ("cut", {}, (smtplib.SMTPDataError, smtplib.SMTPServerDisconnected), 1),
        ("late", {"hold": True}, (smtplib.SMTPServerDisconnected,), 0),
    ],
)
def test_fault_and_the_effects_counted_at_the_mailbox(
    mail: RehearsalDestination,
    mode: str,
    options: dict[str, bool],
    error: tuple[type[OSError], ...],
    effects: int,
) -> None:
    mail.fault(mode, **options)
    with pytest.raises(error):
        send(mail.smtp_address)
    assert mail.effects(message_id=ID) == {"messages": effects}
    if mode == "late":
        (entry,) = mail.release()
        assert (entry["forwarded"], entry["upstream_status"]) == (1, 250)
        assert mail.effects(message_id=ID) == {"messages": 1}
    mail.disarm()
    send(mail.smtp_address)


def test_hanging_reply_comes_after_the_effect(mail: RehearsalDestination) -> None:
    mail.fault("hang")
    with smtplib.SMTP(*mail.smtp_address, timeout=WAIT_S) as client:
        client.ehlo()
        client.mail("shop@x.invalid")
        client.rcpt("ann@x.invalid")
        client.docmd("DATA")
        client.send(message().as_bytes().replace(b"\n", b"\r\n") + b"\r\n.\r\n")
        assert mail.wait_held() == 1
        assert mail.effects() == {"messages": 1}
        mail.release()
        assert client.getreply()[0] == 250
    assert mail.effects() == {"messages": 1}


def test_duplicate_delivery_is_two_messages(mail: RehearsalDestination) -> None:
    mail.fault("duplicate")
    send(mail.smtp_address)
    assert mail.effects(message_id=ID) == {"messages": 2}
    (entry,) = mail.proxy_log()
    assert (entry["method"], entry["path"], entry["key"], entry["forwarded"]) == ("DATA", "ann@x.invalid", ID, 2)
    assert entry["upstream_statuses"] == [250, 250]


def test_fault_can_be_aimed_at_one_recipient(mail: RehearsalDestination) -> None:
    mail.fault("drop_request", path="bob@")
    send(mail.smtp_address)
    assert mail.proxy_state()["armed"][0]["times"] == 1

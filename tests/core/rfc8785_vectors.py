"""The six public test vectors of RFC 8785, as facts: JSON text in, canonical text out.

Source: https://github.com/cyberphone/json-canonicalization, ``testdata/input`` and ``testdata/output``,
by the RFC's first author (the ``weird`` and ``values`` pairs also stand in RFC 8785, sections 3.2.2 to
3.2.4). Everything outside ASCII is written as an escape here, so that an editor cannot change it.
"""

from typing import Final, NamedTuple


class Vector(NamedTuple):
    """One pair; ``in_domain`` says whether our own encoding takes it (it refuses floats of 2^53 and more)."""

    name: str
    given: str
    canonical: str
    in_domain: bool = True


VECTORS: Final = (
    Vector(
        "arrays",
        '[\n  56,\n  {\n    "d": true,\n    "10": null,\n    "1": [ ]\n  }\n]',
        '[56,{"1":[],"10":null,"d":true}]',
    ),
    Vector(
        "french",
        '{\n  "peach": "This sorting order",\n  "p\u00e9ch\u00e9": "is wrong according to French",\n'
        '  "p\u00eache": "but canonicalization MUST",\n  "sin":   "ignore locale"\n}\n',
        '{"peach":"This sorting order","p\u00e9ch\u00e9":"is wrong according to French",'
        '"p\u00eache":"but canonicalization MUST","sin":"ignore locale"}',
    ),
    Vector(
        "structures",
        '{\n  "1": {"f": {"f": "hi","F": 5} ,"\\n": 56.0},\n  "10": { },\n  "": "empty",\n'
        '  "a": { },\n  "111": [ { } ],\n  "A": { }\n}',
        '{"":"empty","1":{"\\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{}],"A":{},"a":{}}',
    ),
    Vector(
        "unicode",
        '{\n  "Unnormalized Unicode":"A\\u030a"\n}\n',
        '{"Unnormalized Unicode":"A\u030a"}',
    ),
    Vector(
        "values",
        '{\n  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],\n'
        '  "string": "\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/",\n'
        '  "literals": [null, true, false]\n}',
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
        in_domain=False,
    ),
    Vector(
        "weird",
        '{\n  "\\u20ac": "Euro Sign",\n  "\\r": "Carriage Return",\n  "\\u000a": "Newline",\n  "1": "One",\n'
        '  "\\u0080": "Control\\u007f",\n  "\\ud83d\\ude02": "Smiley",\n'
        '  "\\u00f6": "Latin Small Letter O With Diaeresis",\n'
        '  "\\ufb33": "Hebrew Letter Dalet With Dagesh",\n  "</script>": "Browser Challenge"\n}\n',
        '{"\\n":"Newline","\\r":"Carriage Return","1":"One","</script>":"Browser Challenge",'
        '"\u0080":"Control\u007f","\u00f6":"Latin Small Letter O With Diaeresis","\u20ac":"Euro Sign",'
        '"\U0001f602":"Smiley","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    ),
)

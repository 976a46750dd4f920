"""Z-machine story files of version 5, assembled by hand: small games, and broken ones under a right checksum.

The layout of a story file and the opcodes: The Z-Machine Standards Document 1.1, sections 3, 11 and 14.
"""

from __future__ import annotations

GLOBALS, OBJECTS, TYPED, PARSED, DICTIONARY, CODE, LENGTH = 0x40, 0x220, 0x2C0, 0x340, 0x380, 0x400, 0x600
READ = b"\xe4\x0f" + TYPED.to_bytes(2, "big") + PARSED.to_bytes(2, "big") + b"\x00"
FOREVER = b"\x8c\xff\xff"  # a jump to itself
QUIT = b"\xba"
ILLEGAL = b"\xbe\xff\xff"
DIVIDE_BY_ZERO = bytes.fromhex("1701000000")


def zstring(text: str) -> bytes:
    """Lower case letters and blanks as the z-machine's own text."""
    codes = [0 if letter == " " else ord(letter) - 91 for letter in text]
    codes += [5] * (-len(codes) % 3)
    words = [codes[at] << 10 | codes[at + 1] << 5 | codes[at + 2] for at in range(0, len(codes), 3)]
    words[-1] |= 0x8000
    return b"".join(word.to_bytes(2, "big") for word in words)


def says(text: str) -> bytes:
    """Code that prints a line."""
    return b"\xb2" + zstring(text) + b"\xbb"


def story(code: bytes) -> bytes:
    """A whole story file that runs ``code``; its dictionary knows the word "look"."""
    made = bytearray(LENGTH)
    made[0] = 5
    header = {0x04: CODE, 0x06: CODE, 0x08: DICTIONARY, 0x0A: OBJECTS, 0x0C: GLOBALS, 0x0E: DICTIONARY, 0x18: GLOBALS}
    for place, value in {**header, 0x1A: LENGTH // 4}.items():
        made[place : place + 2] = value.to_bytes(2, "big")
    made[TYPED], made[PARSED] = 100, 10
    made[DICTIONARY : DICTIONARY + 4] = bytes([0, 9, 0, 1])
    made[DICTIONARY + 4 : DICTIONARY + 10] = zstring("look     ")
    made[CODE : CODE + len(code)] = code
    return checked(made)


def checked(made: bytes | bytearray) -> bytes:
    """The same with its right checksum."""
    changed = bytearray(made)
    changed[0x1C:0x1E] = (sum(made[0x40:]) & 0xFFFF).to_bytes(2, "big")
    return bytes(changed)


def echoing() -> bytes:
    """The code of a game without an end: a greeting, and the same answer to everything."""
    body = READ + says("noted")
    return says("hello there") + body + b"\x8c" + ((-(len(body) + 1)) & 0xFFFF).to_bytes(2, "big")

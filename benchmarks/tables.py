"""Tables of the kinds that people have, made from a seed: short texts brought into one form.

Each maker returns a source and its target. Sources have abbreviations, and lack letters now and then.
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Callable

Pair = tuple[str, str]
Maker = Callable[[random.Random], Pair]

MATERIALS = {"zinc": "zn", "steel": "stl", "brass": "brs", "nylon": "nyl", "stainless steel": "ss", "copper": "cu"}
PARTS = {"washer": "wshr", "bolt": "blt", "screw": "scr", "nut": "nut", "rivet": "rvt", "anchor": "anch", "hook": "hk"}
STREETS = {"Street": "st", "Avenue": "ave", "Road": "rd", "Boulevard": "blvd", "Lane": "ln", "Drive": "dr"}
CITIES = {"Springfield": "IL", "Portland": "OR", "Austin": "TX", "Salem": "MA", "Madison": "WI", "Fairview": "NJ"}
UNITS = {"kilogram": "kg", "gram": "g", "liter": "l", "milliliter": "ml", "meter": "m", "inch": "in", "foot": "ft"}
FIRST_NAMES = ("Anna", "Carla", "Elena", "Goran", "Ivan", "Karl", "Maria", "Olga", "Rosa", "Tomas", "Vera", "Xenia")
LAST_NAMES = ("Berg", "Costa", "Demir", "Fischer", "Horvat", "Jansen", "Lopez", "Novak", "Peters", "Silva", "Weber")
MONTHS = calendar.month_name[1:]
ROOMS = ("kitchen", "hall", "bedroom", "office", "garage", "living room", "bath")
DEVICES = ("light", "fan", "heater", "lock", "camera", "blind")


def typed(text: str, rng: random.Random) -> str:
    """Return a text as somebody types it: lower case mostly, now and then without a letter."""
    at = rng.randrange(len(text)) if rng.random() < 0.15 else len(text)
    return (str.lower if rng.random() < 0.8 else str.upper)(text[:at] + text[at + 1 :])


def product(rng: random.Random) -> Pair:
    part, material = rng.choice(list(PARTS)), rng.choice(list(MATERIALS))
    size, length, pack = rng.choice((3, 4, 5, 6, 8, 10, 12)), rng.randrange(8, 120, 4), rng.choice((1, 10, 25, 50, 100))
    short = [rng.choice((part, PARTS[part])), rng.choice((f"m{size}", f"m {size}", f"m{size}x{length}"))]
    has_length = "x" in short[1]
    short += [rng.choice((material, MATERIALS[material])), rng.choice((f"{pack}pk", f"pack {pack}", f"x{pack} pcs"))]
    if rng.random() < 0.3:
        short[1], short[2] = short[2], short[1]
    name = f"{part.capitalize()} M{size}{f' × {length} mm' if has_length else ''}, {material}, pack of {pack}"
    return typed(" ".join(short), rng), name


def address(rng: random.Random) -> Pair:
    number, name = rng.randrange(1, 2000), rng.choice(LAST_NAMES)
    kind, city = rng.choice(list(STREETS)), rng.choice(list(CITIES))
    flat = rng.choice(("", f"{rng.randrange(1, 40)}{rng.choice('abcd')}"))
    short = [str(number), name, rng.choice((kind, STREETS[kind], f"{STREETS[kind]}."))]
    short += [rng.choice((f"apt {flat}", f"#{flat}"))] if flat else []
    short += [city, CITIES[city]]
    full = f"{number} {name} {kind}, {f'Apartment {flat.upper()}, ' if flat else ''}{city}, {CITIES[city]}"
    return typed(rng.choice((" ", ", ")).join(short), rng), full


def quantity(rng: random.Random) -> Pair:
    unit, count = rng.choice(list(UNITS)), rng.randrange(1, 400)
    tenths = rng.choice((0, rng.randrange(1, 10)))
    value = f"{count}.{tenths}" if tenths else str(count)
    written = value.replace(".", rng.choice((".", ",")))
    plural = {"inch": "inches", "foot": "feet"}.get(unit, f"{unit}s")
    source = written + rng.choice(("", " ")) + rng.choice((UNITS[unit], unit, f"{UNITS[unit]}."))
    return source, f"{value} {unit if value == '1' else plural}"


def person(rng: random.Random) -> Pair:
    first, last, middle = rng.choice(FIRST_NAMES), rng.choice(LAST_NAMES), rng.choice("ABCDEFGH")
    given = f"{first} {middle}."
    source = rng.choice((f"{last}, {given}", f"{given} {last}", f"Dr. {given} {last}"))
    return typed(source, rng), f"{last}, {first[0]}. {middle}."


def command(rng: random.Random) -> Pair:
    device, room, state = rng.choice(DEVICES), rng.choice(ROOMS), rng.choice(("on", "off"))
    minutes = rng.choice((0, rng.randrange(1, 60)))
    words = rng.choice(
        (
            f"turn {state} the {room} {device}",
            f"{device} in the {room} {state}",
            f"switch the {device} of the {room} {state}",
        )
    )
    words += rng.choice((f" in {minutes} minutes", f" after {minutes} min")) if minutes else ""
    return typed(words, rng), f"set {device} {room.replace(' ', '_')} {state}{f' after {minutes}' if minutes else ''}"


LETTERS = {"sh": "ш", "ch": "ч", "zh": "ж", "ya": "я", "yu": "ю", "kh": "х"}
LETTERS |= dict(zip("abvgdezijklmnoprstuf", "абвгдезийклмнопрстуф", strict=True))


def transliteration(rng: random.Random) -> Pair:
    parts = [rng.choice(list(LETTERS)) for _ in range(rng.randint(3, 8))]
    vowels = [rng.choice("aeiou") for _ in parts]
    latin = "".join(part + vowel for part, vowel in zip(parts, vowels, strict=True))
    other = "".join(LETTERS[part] + LETTERS[vowel] for part, vowel in zip(parts, vowels, strict=True))
    return latin.capitalize(), other.capitalize()


def phone(rng: random.Random) -> Pair:
    code, (area, first, last) = rng.choice(("1", "31", "44", "49")), (rng.randrange(200, 999) for _ in range(3))
    last = last * 10 + rng.randrange(10)
    number = rng.choice(
        (f"({area}) {first}-{last}", f"{area}.{first}.{last}", f"{area} {first}{last}", f"0{area}-{first} {last}")
    )
    return rng.choice((f"+{code} ", f"00{code} ", f"+{code}-")) + number, f"+{code} {area} {first} {last}"


def form(rng: random.Random) -> Pair:
    """A made-up language with vowel harmony: the vowel of an ending is that of the stem, voiced letters change."""
    stem = "".join(rng.choice("bdgklmnprst") + rng.choice("aeou") for _ in range(rng.randint(2, 4)))
    stem += rng.choice("ptknl")
    back, person, past = stem[-2] in "aou", rng.choice("123"), rng.random() < 0.5
    vowel = "a" if back else "e"
    softened = stem[:-1] + {"p": "b", "t": "d", "k": "g"}.get(stem[-1], stem[-1])
    ending = {"1": f"{vowel}m", "2": f"{vowel}s", "3": ""}[person]
    made = (stem + ("d" if stem[-1] in "nl" else "t") + vowel if past else softened) + ending
    return f"{stem} V {'PST' if past else 'PRS'} {person}", made


def spelling(rng: random.Random) -> Pair:
    """Phonemes to a spelling, in which the neighbors of a phoneme decide."""
    sounds = [
        rng.choice(("k", "s", "ʃ", "t", "m", "n", "l", "p")) + " " + rng.choice("aɪeou")
        for _ in range(rng.randint(1, 4))
    ]
    letters = []
    for sound in sounds:
        consonant, vowel = sound.split()
        front = vowel in "eɪ"
        letters.append({"k": "k" if front else "c", "s": "c" if front else "s", "ʃ": "sh"}.get(consonant, consonant))
        letters.append({"ɪ": "i", "u": "oo"}.get(vowel, vowel))
    return " ".join(sounds), "".join(letters)


def date(rng: random.Random) -> Pair:
    year, month, day = rng.randrange(1950, 2050), rng.randrange(1, 13), rng.randrange(1, 29)
    name = MONTHS[month - 1]
    forms = f"{day}.{month}.{year}", f"{name[:3]} {day} {year}", f"{day} {name} {year}", f"{name} {day}, {year}"
    return rng.choice(forms), f"{year}-{month:02}-{day:02}"


def amount(rng: random.Random) -> Pair:
    currency, value = rng.choice((("$", "USD"), ("€", "EUR"), ("£", "GBP"))), rng.randrange(100, 99_999)
    written = f"{value / 100:,.2f}", f"{value / 100:.2f}", f"{value / 100:.2f}".replace(".", ",")
    source = rng.choice((f"{currency[0]}{rng.choice(written)}", f"{rng.choice(written)} {currency[1].lower()}"))
    return source, f"{value / 100:.2f} {currency[1]}"


MAKERS: dict[str, Maker] = {
    "products": product,
    "addresses": address,
    "quantities": quantity,
    "people": person,
    "commands": command,
    "transliterations": transliteration,
    "phones": phone,
    "forms": form,
    "spellings": spelling,
    "dates": date,
    "amounts": amount,
}
KEPT_ASIDE = ("phones", "forms", "amounts", "people")  # which chose no rule


def table(kind: str, n_rows: int, seed: int = 0) -> list[Pair]:
    """Return `n_rows` pairs of a kind; a few occur more than once."""
    rng = random.Random(f"{kind} {seed}")
    return [MAKERS[kind](rng) for _ in range(n_rows)]

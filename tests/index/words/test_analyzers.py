"""Forms of a word have one stem, typed with accents or without."""

import pytest

from index.words.analyzers import ENDINGS, analyzer_for

FORMS = {
    "french": "occupé occupée occupés occupées|premier première premières|préféré préférée|démarré démarrées|créé crée"
    "|vélo vélos|menu menus|jeu jeux|cheveu cheveux|vœu vœux|gros|inclus|abus abuser|repos reposer|propos proposer",
    "portuguese": "estação estações|ação ações|milhão milhões|leão leões|shoe shoes|canoe canoes|papel papéis"
    "|hotel hotéis|animal animais|azul azuis|lençol lençóis|infantil infantis|pão pães|mão mãos|mãe mães|herói heróis",
    "spanish": "luz luces|lápiz lápices|feliz felices|sartén sartenes|joven jóvenes|examen exámenes|enlace enlaces",
    "russian": "подарок подарки подарков|ботинок ботинки|сумка сумок|кружка кружек|цветок цветков|поток потоки"
    "|человек человека|аптека аптек|чеснок чеснока|игрок игроки"
    "|моноблок моноблоки|брелок брелоки|узбек узбеки|отсек отсеки|упрек упреки",
    "arabic": "خدمة خدمات|سيارة سيارات السيارات والسيارات|كتاب الكتاب والكتاب فالكتاب",
    "turkish": "kız kızlar|gözlük gözlükler|göz gözler|yıl yıllar yıllarda|kuş kuşlar|kapı kapılar|öz özler|ev evler",
    "english": "naïve",
}


DIFFERENT = {
    "french": "musée muse|purée pure|durée dure|marée mare|fusée fuse|rosée rose|portée porte|pensée pense"
    "|poupée poupe|bouchée boucher|cheminée chemin|CHEMINÉES chemins"
    "|données donner|Crimée crime|contrée contre|lignée ligne|foulée foule|bière bis"
    "|bus bu|clos clo",
    "portuguese": "pões pão|does dão|mais mal|seis selo|mães mão|caos cão|jamais jamal",
    "russian": "поток потка",
    "turkish": "kolera ko|tolere to|dilara di",
}


def stem(language: str, word: str) -> list[str]:
    return analyzer_for(language).analyze(word)


def without_accents(word: str) -> str:
    return " ".join(analyzer_for("none").analyze(word))


@pytest.mark.parametrize("language", FORMS)
def test_forms_of_a_word_have_one_stem_with_and_without_accents(language: str) -> None:
    for family in FORMS[language].split("|"):
        forms = family.split()
        typed = [*forms, *map(without_accents, forms), *map(str.upper, forms)]
        assert len({tuple(stem(language, form)) for form in typed}) == 1, family


@pytest.mark.parametrize("language", DIFFERENT)
def test_words_of_another_meaning_keep_their_stem(language: str) -> None:
    for pair in DIFFERENT[language].split("|"):
        one, other = pair.split()
        assert stem(language, one) == stem(language, without_accents(one)) != stem(language, other), pair


@pytest.mark.parametrize("language", ENDINGS)
def test_each_vowel_of_an_ending_counts_with_all_its_accents(language: str) -> None:
    for vowels in ("aàáâãäå", "eèéêë", "iìíîïı", "oòóôõö", "uùúûü"):
        for start in ("", "k", "ki", "ko", "kie", "kil", "kol", "kolib", "kolibe", "kolibier", "port"):
            for end in ("", "s", "e", "es", "re", "r", "rda", "l", "lar"):
                assert len({tuple(stem(language, f"{start}{vowel}{end}")) for vowel in vowels}) == 1


def test_words_of_a_text_are_analyzed_each_by_itself() -> None:
    assert stem("french", "la salle occupée est réservée") == [
        term for word in "la salle occupée est réservée".split() for term in stem("french", word)
    ]

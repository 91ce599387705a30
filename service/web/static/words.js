// The words of a snippet in the whole text. They are cut and compared as the service does it
// (index/words/tokens.py and plain_text.py): case, Latin and Greek accents, and invisible characters do not count,
// œ is oe, as are the other letters of OTHERS, and so are the digits and letters that are typed for others.
// Signs that stand for several characters, such as ½ and ㎏, are not taken apart.

// Thai, Kana, Han and Hangul have no spaces between words: each pair of these characters is a word.
const UNSPACED =
  "\u0e01-\u0e3a\u0e40-\u0e4e\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f" +
  "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3";
const INVISIBLE = "\u00ad\u034f\u180b-\u180d\u2060\ufe00-\ufe0f\ufeff\u{e0100}-\u{e01ef}";
const AFTER_WORD = "\u0e80-\u109f\u1780-\u17ff\u1950-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"; // a space without width ends these words
const ARABIC = "\u0600-\u06ff\u0750-\u077f\u0870-\u08ff\ufb50-\ufdff\ufe70-\ufefe"; // a non-joiner ends these words
const UNSEEN = `[${INVISIBLE}\u200d]|(?<![${AFTER_WORD}])\u200b|(?<![${ARABIC}])\u200c`;
const RUN = new RegExp(
  `[${UNSPACED}](?:[${UNSPACED}\u3099\u309a]|${UNSEEN})*|(?:(?![${UNSPACED}\u02bb\u02bc])[\\p{L}\\p{N}\\p{Mn}\\p{Mc}]|${UNSEEN})+`,
  "gu",
);
// A character of a run without spaces: a Hangul syllable of letters, or one with the voice marks of Kana.
const LETTER = new RegExp(`[\u1100-\u115f][\u1160-\u11ff]+|.(?:[\u3099\u309a\uff9e\uff9f]|${UNSEEN})*`, "gsu");
const isUnspaced = new RegExp(`^[${UNSPACED}]`, "u");
const isToneMark = /^[\u0e47-\u0e4e]/; // of Thai
const unseen = new RegExp(UNSEEN, "gu");
const OTHERS = {
  ...{ Œ: "OE", Æ: "AE", Þ: "TH", Ø: "O", Ł: "L", Đ: "D", Ð: "D", Ɖ: "D", Ɗ: "D", Ħ: "H", Ŧ: "T" },
  ...{ Ŋ: "N", Ə: "A", Ɓ: "B", Ɛ: "E", Ɔ: "O", Ƙ: "K", Ƴ: "Y" },
};
const otherLetters = new RegExp(`[${Object.keys(OTHERS).join("")}]`, "g");
const TYPED_FOR = { آ: "ا", أ: "ا", إ: "ا", ٱ: "ا", ى: "ي", ی: "ي", ک: "ك", ۀ: "ه", ہ: "ه", ۂ: "ه", "ँ": "ं" };
const typedForOthers = new RegExp(`[${Object.keys(TYPED_FOR).join("")}]`, "gu");
const isDigit = /^\p{Nd}$/u;
const accentsOfLetters = /([\p{Script=Latin}\p{Script=Greek}])\p{M}+/gu;
const otherAccents = /[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670\u093c\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20dc\u302a-\u302f\u3099\u309a\ufe20-\ufe2f]/g;

// Returns the words of marked parts of a snippet, for `spansOf`.
export const wordsOf = (parts) => new Set(parts.flatMap((part) => cut(part).map(({ word }) => word)));

// Returns where the words are in a text, as pairs [start, end] in reading order. Pairs that overlap are joined.
export function spansOf(text, words) {
  const spans = [];
  if (!words.size) return spans;
  for (const { start, end, word } of cut(text, words)) {
    if (!words.has(word)) continue;
    if (spans.length && start < spans.at(-1)[1]) spans.at(-1)[1] = Math.max(end, spans.at(-1)[1]);
    else spans.push([start, end]);
  }
  return spans;
}

// Returns the words of a text with their places. Those of `alone` that are a character are found in pairs, too.
function cut(text, alone = new Set()) {
  return Array.from(text.matchAll(RUN)).flatMap(({ 0: run, index }) => {
    const whole = { start: index, end: index + run.length };
    return isUnspaced.test(run) ? pairsOf(run, whole, alone) : { ...whole, word: folded(run) };
  });
}

function pairsOf(run, { start, end }, alone) {
  const all = Array.from(run.matchAll(LETTER), ({ 0: one, index }) => ({
    start: start + index,
    end: start + index + one.length,
    word: isToneMark.test(one) ? "" : foldedLetter(one),
  }));
  const letters = all.filter(({ word }) => word);
  if (letters.length === 1) return [{ start: letters[0].start, end, word: letters[0].word }];
  return letters.flatMap((one, at) => {
    const next = letters[at + 1];
    const pair = next ? [{ start: one.start, end: next.end, word: one.word + next.word }] : [];
    return alone.has(one.word) ? [one, ...pair] : pair;
  });
}

const isPlainLetter = /^[\u4e00-\u9fff\uac00-\ud7a3]$/; // Han and Hangul, which have neither case nor accents
const known = new Map();

function foldedLetter(one) {
  if (isPlainLetter.test(one)) return one;
  if (!known.has(one)) known.set(one, folded(one));
  return known.get(one);
}

// Compares in capitals: ς and σ have the same one.
function folded(word) {
  const plain = word.replace(unseen, "").normalize("NFKD").replace(accentsOfLetters, "$1").normalize("NFC");
  const capitals = plain.replace(otherAccents, "").toLowerCase().toUpperCase().replaceAll("Ё", "Е");
  const letters = capitals.replace(otherLetters, (letter) => OTHERS[letter]);
  return letters
    .replace(typedForOthers, (letter) => TYPED_FOR[letter])
    .replace(/[^\x00-\x7f]/gu, (one) => (isDigit.test(one) ? digit(one) : one));
}

// The ASCII digit of a digit: the digits of a script follow each other.
function digit(one) {
  let value = 0;
  while (value < 9 && isDigit.test(String.fromCodePoint(one.codePointAt(0) - value - 1))) value += 1;
  return String(value);
}

"""Extracts title, text and metadata from files that are one document: Markdown, HTML, plain text, PDF, DOCX.

The libraries are imported where they are used: a command that reads no PDF does not load a PDF library.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.cli.sources.formats import SourceFormat
from service.cli.sources.front_matter import InvalidFrontMatter, front_matter
from service.documents.reading import UTF_16

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Decompressed bytes of a file that is one document."""


class Unreadable(ValueError):
    """A file that gives no text, and the reason."""


@dataclass
class TextFile:
    """The content of a file. The title is None where the file names none."""

    text: str
    title: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


def extract(kind: SourceFormat, content: bytes) -> TextFile:
    """Return the content of a file. Raises Unreadable with the reason in words."""
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        found = EXTRACTORS[kind](content)
    except RecursionError as error:
        raise Unreadable("the file is nested too deeply") from error
    if not found.text.strip():
        raise Unreadable("the file has no text" + ("; scanned pages need OCR" if kind is SourceFormat.PDF else ""))
    return found


def decoded(content: bytes) -> str:
    """Return text in UTF-8, or in UTF-16 with a byte order mark. Raises Unreadable."""
    encoding = "utf-16" if content[:2] in UTF_16 else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error


def plain_text(content: bytes) -> TextFile:
    """Return a text file as it is."""
    return TextFile(decoded(content))


def markdown(content: bytes) -> TextFile:
    """Return Markdown without its marks. The title is the title in the front matter, else the first heading."""
    from markdown_it import MarkdownIt

    try:
        front = front_matter(decoded(content))
    except InvalidFrontMatter as error:
        raise Unreadable(str(error)) from error
    title = front.title
    blocks: list[str] = []
    cells: list[str] | None = None
    heading = False
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(front.body):
        if token.type == "inline":
            text = "".join(_inline(token.children or []))
            (blocks if cells is None else cells).append(text)
            title = text if heading and title is None else title
        elif token.type in ("fence", "code_block"):
            blocks.append(token.content.rstrip("\n"))
        elif token.type == "html_block":
            blocks.append(_markup_text(token.content))
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and cells is not None:
            blocks.append(_row(cells))
            cells = None
        heading = token.type == "heading_open"
    return TextFile(_without_title("\n\n".join(filter(str.strip, blocks)), title), title, front.fields)


def _row(cells: Sequence[str]) -> str:
    """Return a row of a table: its cells with tabs between them, so that a passage or an answer has them together."""
    return "\t".join(" ".join(cell.split()) for cell in cells).strip("\t")


def _without_title(text: str, title: str | None) -> str:
    """Return a text without its first paragraph if that is the title: else every snippet begins with it."""
    first, _, rest = text.partition("\n\n")
    return rest if title and rest.strip() and first.split() == title.split() else text


def _inline(tokens: list[Any]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            yield "\n"
        elif token.type == "html_inline":
            continue
        else:
            yield token.content


BLOCKS = (
    "address,article,blockquote,dd,div,dl,dt,figcaption,figure,h1,h2,h3,h4,h5,h6,hr,li,main,ol,p,pre,section,table,"
    "tr,ul"
)
UNSEEN = "script,style,noscript,template,svg,iframe,form,button,nav,aside,dialog"
"""Elements without content of the page itself."""
FRAME = "header,footer"
"""Elements around the content, unless they are inside of it."""
CELL_END, BLOCK_END, LINE_END = "\x1d", "\x1e", "\x1f"
LONGEST_CELL = 500
"""Characters of a cell whose paragraphs and line breaks are joined to one line."""
KEPT = str.maketrans({" ": "\ufdd2", "\u00a0": "\ufdd2", "\t": "\ufdd3"})
"""White space of preformatted text -> what stands for it while other white space is joined."""
RESTORED = str.maketrans({"\ufdd2": " ", "\ufdd3": "\t"})


def html(content: bytes) -> TextFile:
    """Return the main text of a page: of `main` or a single `article`, else of the body without its frame."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(_decoded_page(content))
    title = tree.css_first("title")
    heading = tree.css_first("h1")
    articles = tree.css("article")
    root = tree.css_first("main, [role=main]") or (articles[0] if len(articles) == 1 else None)
    named = title.text(strip=True) if title else ""
    named = named or (heading.text(strip=True) if heading else "")
    text = _visible_text(root or tree.body, UNSEEN if root else f"{UNSEEN},{FRAME}")
    name = " ".join(named.split()) or None
    return TextFile(_without_title(text or _visible_text(tree.body, UNSEEN), name), name)


def _decoded_page(content: bytes) -> str:
    """Return a page as text, by its byte order mark, else as UTF-8, else by the charset that it declares."""
    try:
        return decoded(content)
    except Unreadable:
        declared = re.search(rb"<meta[^>]{0,200}charset=[\"']?([\w-]+)", content[:4096], re.IGNORECASE)
        try:
            return content.decode(declared[1].decode("ascii")) if declared else decoded(content)
        except (LookupError, UnicodeDecodeError) as error:
            raise Unreadable("neither UTF-8 nor the encoding that the page declares") from error


def _visible_text(root: Any, unseen: str) -> str:
    """Return the text below an element: blocks are separated by blank lines, the cells of a row by tabs.

    Other white space is a blank, but for preformatted text.
    """
    if root is None:
        return ""
    for node in root.css(unseen):
        node.decompose()
    for node in root.css("pre"):
        node.replace_with(BLOCK_END + node.text().translate(KEPT).replace("\n", LINE_END) + BLOCK_END)
    for node in root.css("br"):
        node.insert_before(LINE_END)
    for node in root.css("td,th"):
        text = " ".join(node.text(separator=" ").split())
        if len(text) > LONGEST_CELL or node.css_first("table,pre") is not None:
            node.insert_after(CELL_END)  # a table that lays out a page has its paragraphs
        else:
            node.replace_with(text + CELL_END)
    for node in root.css(BLOCKS):
        node.insert_before(BLOCK_END)
        node.insert_after(BLOCK_END)
    parts = re.split(f"(?:{BLOCK_END}\\s*)+", root.text())
    lines = ([_row(re.split(CELL_END, line)) for line in re.split(LINE_END, part)] for part in parts)
    return "\n\n".join(filter(None, ("\n".join(part).strip("\n") for part in lines))).translate(RESTORED)


def _markup_text(markup: str) -> str:
    from selectolax.lexbor import LexborHTMLParser

    return _visible_text(LexborHTMLParser(markup).body, UNSEEN)


def pdf(content: bytes) -> TextFile:
    """Return the text of the pages of a PDF, separated by blank lines, and the title of its metadata."""
    import logging

    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it writes warnings about the file to stderr
    try:
        reader = PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("the PDF is encrypted")
        title = reader.metadata.title if reader.metadata else None
        text = "\n\n".join(page.extract_text() for page in reader.pages)
    except DependencyError as error:
        raise Unreadable(
            "the PDF is encrypted with AES; pip install 'pypdf[crypto]' if it needs no password"
        ) from error
    except FileNotDecryptedError as error:
        raise Unreadable("the PDF is encrypted") from error
    except Unreadable:
        raise
    except Exception as error:  # a damaged file raises many types
        raise Unreadable("not a readable PDF") from error
    return TextFile(_clean(text), str(title).strip() or None if title else None)


def docx(content: bytes) -> TextFile:
    """Return the paragraphs and tables of a DOCX. The title is the title in its properties, else the first heading."""
    from docx import Document
    from docx.table import Table

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as parts:
            if sum(part.file_size for part in parts.infolist()) > MAX_FILE_BYTES:
                raise Unreadable(f"the DOCX decompresses to more than {MAX_FILE_BYTES} bytes")
        document = Document(io.BytesIO(content))
        title = document.core_properties.title or None
        blocks: list[str] = []
        for block in document.iter_inner_content():
            if isinstance(block, Table):
                blocks += ["\t".join(cell.text for cell in row.cells) for row in block.rows]
                continue
            blocks.append(block.text)
            if title is None and block.style and (block.style.name or "").startswith(("Heading", "Title")):
                title = block.text.strip() or None
    except Unreadable:
        raise
    except Exception as error:  # a damaged file raises many types; an encrypted one is no zip file
        raise Unreadable("not a readable DOCX, or encrypted") from error
    return TextFile(_without_title(_clean("\n\n".join(filter(str.strip, blocks))), title), title)


def _clean(text: str) -> str:
    """Return text without NUL and lone surrogates, which broken fonts produce."""
    return text.replace("\0", "").encode(errors="ignore").decode()


EXTRACTORS: dict[SourceFormat, Callable[[bytes], TextFile]] = {
    SourceFormat.MD: markdown,
    SourceFormat.HTML: html,
    SourceFormat.TXT: plain_text,
    SourceFormat.PDF: pdf,
    SourceFormat.DOCX: docx,
}

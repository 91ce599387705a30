"""Small files of the formats that `softseek ingest` reads, made by hand or with the library that writes them."""

import io
from pathlib import Path

from docx import Document
from pypdf import PdfReader, PdfWriter


def written(path: Path, content: bytes | str) -> Path:
    """Write a file, with its folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def pdf(*lines: str, title: str | None = None) -> bytes:
    """Return a PDF with a page for each line. pypdf completes the table of positions."""
    count = len(lines)
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, line in enumerate(lines):
        shown = f"BT /F1 12 Tf 72 700 Td ({line}) Tj ET" if line else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream")
    body = "%PDF-1.4\n" + "".join(f"{at} 0 obj\n{one}\nendobj\n" for at, one in enumerate(objects, 1))
    body += f"trailer\n<< /Root 1 0 R /Size {len(objects) + 1} >>\nstartxref\n0\n%%EOF\n"
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(body.encode())))
    writer.metadata = {"/Title": title} if title else None
    return _bytes_of(writer)


def encrypted_pdf(line: str, password: str) -> bytes:
    """Return a PDF that needs a password."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf(line))))
    writer.encrypt(password, algorithm="RC4-128")
    return _bytes_of(writer)


def docx(title: str, paragraph: str, cells: tuple[str, ...] = ()) -> bytes:
    """Return a DOCX with a heading, a paragraph and a table of one row."""
    document = Document()
    document.add_heading(title)
    document.add_paragraph(paragraph)
    if cells:
        row = document.add_table(rows=1, cols=len(cells)).rows[0]
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def _bytes_of(writer: PdfWriter) -> bytes:
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()

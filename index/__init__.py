"""The Softseek library: text, arrays, tensors and files. It knows no HTTP, no SQL and no environment."""

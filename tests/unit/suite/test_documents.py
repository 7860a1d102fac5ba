"""Reading programs out of Markdown."""

from __future__ import annotations

from documents import prints_as_told, program_of

TEXT = """\
# Title
```yaml file=classes.yaml
- name: l4
```
```python
a = 1
```
words
  ```python
  print(a)
  ```
```python fragment
never(
```
```sh
rm -rf nothing
```
```text output
1
```
"""


def test_the_python_blocks_of_a_document_are_one_program():
    assert program_of(TEXT).source == "a = 1\n\nprint(a)\n"


def test_a_block_that_names_a_file_is_that_file():
    assert program_of(TEXT).files == {"classes.yaml": "- name: l4\n"}


def test_the_output_is_what_output_blocks_say():
    assert program_of(TEXT).output == "1\n"


def test_a_document_without_blocks_has_no_program():
    program = program_of("words only")
    assert (program.source, program.output) == ("", None)


def test_output_may_leave_out_what_differs_between_runs():
    assert prints_as_told("job ... done\n", "job 0193 done\n")
    assert not prints_as_told("job ... done\n", "job 0193 failed\n")

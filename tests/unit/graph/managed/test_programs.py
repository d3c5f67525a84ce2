"""What a Java program printed."""

from __future__ import annotations

from kgedit.graph.managed.programs import end_of_output


def test_a_java_programs_end_of_output_are_without_progress_and_stack_frames() -> None:
    printed = "\n".join(
        [
            ".......... ..........  90% ∆0ms [26ms]",
            "Import failed",
            "Caused by: a bad row",
            "\tat org.neo4j.Tool.main(Tool.java:1)",
            "\t... 13 more",
            "Caused by: a bad row",
        ]
    )
    assert end_of_output(printed) == "Import failed\nCaused by: a bad row"

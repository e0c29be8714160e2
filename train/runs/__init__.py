"""The life of a run, whatever learns in it: its folder, metrics, evaluation, report, several seeds, stopping."""

"""Runs tutorial.ipynb and stores what its cells put out: python3 examples/python/tutorial_outputs.py (needs nbclient, nbformat, ipykernel, torch). Of a hierarchy the
picture is kept, not the live page: GitHub shows no page within a page. A test compares what is stored with what cells put out."""

import pathlib

TUTORIAL = pathlib.Path(__file__).with_name("tutorial.ipynb")


def kept(output):
    """What is stored of one output: plain data without what changes from run to run."""
    if output["output_type"] == "stream":
        return {"output_type": "stream", "name": output["name"], "text": output["text"]}
    data = dict(output["data"])
    if "image/svg+xml" in data:
        data = {"image/svg+xml": data["image/svg+xml"]}
    made = {"output_type": output["output_type"], "data": data, "metadata": {}}
    if output["output_type"] == "execute_result":
        made["execution_count"] = output["execution_count"]
    return made


def compared(output):
    """What is the same on every machine: of a picture of what was measured, that it is one."""
    data = output.get("data", {})
    measured = 'class="measured"' in data.get("image/svg+xml", "")
    return {**output, "data": {"image/svg+xml": "measured"}} if measured else output


def joined(outputs):
    """What a kernel says in pieces, as on a busy machine, is one output."""
    found = []
    for o in outputs:
        if found and o["output_type"] == "stream" == found[-1]["output_type"] and o["name"] == found[-1]["name"]:
            found[-1] = {**found[-1], "text": found[-1]["text"] + o["text"]}
        else:
            found.append(o)
    return found


def stored(notebook):
    """The outputs of code cells, one list a cell, as they are compared."""
    return [[compared(o) for o in joined(map(kept, cell.outputs))] for cell in notebook.cells if cell.cell_type == "code"]


def executed():
    """The notebook, run in a fresh kernel."""
    import nbclient
    import nbformat

    notebook = nbformat.read(TUTORIAL, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


def main():
    import nbformat

    notebook = executed()
    for cell in notebook.cells:
        cell.metadata = nbformat.NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(o) for o in joined(map(kept, cell.outputs))]
    notebook.metadata = nbformat.from_dict({"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}})
    nbformat.write(notebook, TUTORIAL)


if __name__ == "__main__":
    main()

"""The text of an environment.yml, taken apart with the line of each entry; pure."""

import difflib
import re

import yaml

from .requirement_files import fault

KEYS = ("name", "channels", "dependencies", "variables", "prefix", "platforms")
# Words of a selector behind an entry, ``# [linux]``, as conda-build and conda-lock have them.
HERE = {"linux": True, "linux64": True, "unix": True, "win": False, "win32": False, "win64": False, "osx": False, "osx64": False}
# What other tools' files begin with.
OTHERS = [
    ({"package", "metadata", "version"}, "a lock of conda-lock", "name the environment.yml that it was made from"),
    ({"packages", "environments"}, "a lock of pixi", "write its packages into an environment.yml"),
    ({"services"}, "a file of Docker Compose", "name an environment.yml"),
    ({"all"}, "an inventory of Ansible", "name an environment.yml"),
]
LISTED = "write it as a list, one - entry a line"


class Parts:
    """What stands in an environment.yml; each entry of the lists is ``(where, text)``.

    Args:
        shown: how the user names the file.
    """

    def __init__(self, shown):
        self.shown, self.name = shown, None
        self.channels, self.conda, self.pip = [], [], []
        self.variables, self.left_out = {}, []

    def where(self, node):
        """The place of a YAML node, in words."""
        return "{}, line {}".format(self.shown, node.start_mark.line + 1)


def parse(text, shown):
    """:class:`Parts` of an environment.yml.

    Args:
        text: of the file; shown: how the user names it.

    Raises:
        Fault: it is no YAML or no environment; one sentence with the line.
    """
    parts = Parts(shown)
    root = composed(text, shown)
    lines = text.splitlines()
    for key, value in pairs(parts, mapping(parts, root)):
        if key in ("channels", "dependencies"):
            entries = sequence(parts, key, value)
            if key == "channels":
                parts.channels = [(parts.where(entry), scalar(parts, entry, "a channel")) for entry in entries]
            else:
                for entry in entries:
                    dependency(parts, entry, lines)
        elif key == "variables":
            parts.variables = variables(parts, value)
        elif key == "name":
            parts.name = scalar(parts, value, "a name")
        elif key == "platforms":
            platforms(parts, value)
    return parts


def composed(text, shown):
    """The root node of YAML, whose values are still as they were written; raises Fault."""
    template = re.search(r"\{\{|\{%", text)
    if template:
        where = "{}, line {}".format(shown, text[: template.start()].count("\n") + 1)
        raise fault(where, "a template ({})".format(template.group()), "plain YAML", "write what it stands for")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "{}, line {}".format(shown, mark.line + 1) if mark else shown
        if "'\\t'" in str(error.problem) or mark and "\t" in text.splitlines()[mark.line : mark.line + 1]:
            raise fault(where, "a tab", "spaces", "indent by spaces") from None
        problem = " ".join(filter(None, [error.context, error.problem]))
        raise fault(where, "what is no YAML ({})".format(problem), "an environment in YAML", "correct it") from None
    except yaml.reader.ReaderError as error:
        where = "{}, line {}".format(shown, text[: error.position].count("\n") + 1)
        raise fault(where, "the character {!r}".format(chr(error.character) if isinstance(error.character, int)
                    else error.character), "text", "remove it") from None  # fmt: skip
    if root is None:
        raise fault(shown, "an empty file", "an environment with a list of dependencies", "write one")
    return root


def mapping(parts, root):
    """The root as a mapping; raises Fault that says what it is otherwise."""
    expected = "an environment with the keys channels and dependencies"
    if isinstance(root, yaml.ScalarNode):
        raise fault(parts.where(root), "a text", expected, "name an environment.yml in python_env_spec")
    if isinstance(root, yaml.SequenceNode):
        first = root.value[0] if root.value else None
        keys = {key.value for key, _ in first.value} if isinstance(first, yaml.MappingNode) else set()
        if keys & {"hosts", "import_playbook", "ansible.builtin.import_playbook"}:
            raise fault(parts.where(root), "an Ansible playbook", expected, "name an environment.yml in python_env_spec")
        if keys:
            raise fault(parts.where(root), "a list of mappings", expected, "name an environment.yml in python_env_spec")
        raise fault(parts.where(root), "a list", expected, "put it below the key dependencies:")
    keys = {str(key.value) for key, _ in root.value}
    for marks, what, fix in OTHERS:
        if marks <= keys:
            raise fault(parts.where(root), what, expected, fix)
    return root


def pairs(parts, root):
    """``[(key, node)]`` of the root; raises Fault for keys that are none, are there twice or lack the dependencies."""
    seen = {}
    for key, value in root.value:
        name = str(key.value)
        if name not in KEYS:
            near = difflib.get_close_matches(name, KEYS, 1)
            fix = "did you mean {}?".format(near[0]) if near else "remove it"
            if name == "pip":
                fix = "move it into the list dependencies:, as an entry - pip:"
            raise fault(parts.where(key), "the key {}".format(name), "one of " + ", ".join(KEYS), fix)
        if name in seen:
            raise fault(parts.where(key), "the key {} again".format(name), "it once", "put both into one")
        seen[name] = value
    if "dependencies" not in seen:
        raise fault(parts.shown, "no key dependencies", "a list of packages below it", "write one")
    return list(seen.items())


def sequence(parts, key, node):
    """The entries below a key; raises Fault where it is no list."""
    if not isinstance(node, yaml.SequenceNode):
        empty = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")
        found = "nothing below {}".format(key) if empty else "{} that is no list".format(key)
        if empty and key == "channels":
            return []
        raise fault(parts.where(node), found, "a list", LISTED)
    return node.value


def scalar(parts, node, what):
    """A node's text as it was written (3.10 stays 3.10); raises Fault where it is none."""
    if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null"):
        kinds = {yaml.ScalarNode: "nothing", yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}
        raise fault(parts.where(node), kinds[type(node)], what, "write it as plain text")
    return node.value.strip()


def dependency(parts, node, lines):
    """One entry of the dependencies: a package, the list of pip's, or a selector of micromamba's."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            named(parts, key, value, lines)
        return
    text = scalar(parts, node, "a package such as numpy>=1.26")
    if selected(parts, node, text, lines):
        parts.conda.append((parts.where(node), text))


def named(parts, key, value, lines):
    """An entry that is a mapping: ``pip:`` with its list, or ``sel(linux):`` with a package."""
    name = str(key.value)
    if name == "pip":
        if isinstance(value, yaml.ScalarNode) and value.tag.endswith(":null"):
            return
        for entry in sequence(parts, "pip", value):
            text = scalar(parts, entry, "a requirement such as torch==2.13.0")
            if selected(parts, entry, text, lines):
                parts.pip.append((parts.where(entry), text))
        return
    selector = re.fullmatch(r"sel\((\w+)\)", name)
    if selector and selector.group(1) in HERE:
        text = scalar(parts, value, "a package such as numpy>=1.26")
        if HERE[selector.group(1)]:
            parts.conda.append((parts.where(key), text))
        else:
            parts.left_out.append(text)
        return
    if isinstance(value, yaml.ScalarNode):
        fix = "write - {}={}".format(name, value.value) if re.match(r"\d", value.value) else "write - {} alone".format(name)
        raise fault(parts.where(key), "{}: {}".format(name, value.value), "a package such as numpy>=1.26", fix)
    raise fault(parts.where(key), "a list below {}".format(name), "at most a list below pip", "correct the indentation")


def selected(parts, node, text, lines):
    """Whether an entry is meant for Linux, by a selector in the comment behind it; a comment that is none changes nothing."""
    comment = re.search(r"\s#\s*\[([^\]]+)\]\s*$", lines[node.start_mark.line]) if node.start_mark.line < len(lines) else None
    if not comment:
        return True
    answers = []
    for choice in re.split(r"\s+or\s+", comment.group(1).strip()):
        for word in re.split(r"\s+and\s+", choice):
            bare = re.sub(r"^not\s+", "", word.strip())
            if bare not in HERE:
                return True
            answers.append((choice, HERE[bare] == (bare == word.strip())))
    if any(all(fits for other, fits in answers if other == choice) for choice, _ in answers):
        return True
    parts.left_out.append(text)
    return False


def variables(parts, node):
    """``{name: value}`` below ``variables:``; raises Fault."""
    if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null"):
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise fault(parts.where(node), "variables that are no mapping", "NAME: value", "write one a line, without a dash")
    found = {}
    for key, value in node.value:
        if not re.fullmatch(r"[A-Za-z_]\w*", str(key.value)):
            raise fault(parts.where(key), "the variable {!r}".format(key.value), "a name of letters, digits and _", "rename it")
        found[key.value] = scalar(parts, value, "the variable's value")
    return found


def platforms(parts, node):
    """Nothing, unless the file says that it is not meant for Linux."""
    told = [scalar(parts, entry, "a platform") for entry in sequence(parts, "platforms", node)]
    if told and not any(one.startswith("linux") for one in told):
        raise fault(parts.where(node), "the platforms " + ", ".join(told), "linux-64 among them",
                    "make an environment.yml for Linux: conda env export --from-history")  # fmt: skip

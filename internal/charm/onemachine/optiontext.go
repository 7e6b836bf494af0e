package onemachine

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// setOption returns the text of OptionsFile with a value of an option, in the place of its
// previous value, below its comment or at the end. Other lines stay as they are.
func setOption(text, name string, value any) (string, error) {
	line, err := yaml.Marshal(map[string]any{name: value})
	if err != nil {
		return "", fmt.Errorf("cannot write %s to %s: %w", name, OptionsFile, err)
	}
	changed, err := replaceOption(text, name, string(line))
	if err != nil {
		return "", err
	}
	var got map[string]any
	if err := yaml.Unmarshal([]byte(changed), &got); err != nil {
		return "", unusable(err)
	}
	if got[name] != value {
		return "", fmt.Errorf("cannot write %s to %s: YAML would change its value; write it there in quotes", name,
			OptionsFile)
	}
	return changed, nil
}

// replaceOption returns the text with another line for an option. "" removes the option. The
// options of the result are compared with those of the text, because a file can have any form
// of YAML.
func replaceOption(text, name, line string) (string, error) {
	nodes, err := optionNodes(text)
	if err != nil {
		return "", err
	}
	lines := slices.Collect(strings.Lines(text))
	at := -1
	for i := len(nodes) - 2; i >= 0; i -= 2 { // the last one first, so that the numbers of lines stay right
		if nodes[i].Value != name {
			continue
		}
		from, to := span(lines, nodes, i)
		if to == 0 {
			return "", fmt.Errorf("cannot change %s in %s: its line %d has an unusual form; change it there by hand",
				name, OptionsFile, nodes[i].Line)
		}
		lines, at = slices.Delete(lines, from, to), from
	}
	if at < 0 {
		isComment := func(l string) bool { return strings.HasPrefix(l, "# "+name+":") }
		if at = slices.IndexFunc(lines, isComment) + 1; at == 0 {
			at = len(lines)
		}
	}
	if line != "" {
		if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
			line = "\n" + line
		}
		lines = slices.Insert(lines, at, line)
	}
	changed := strings.Join(lines, "")
	left, err := optionNodes(changed)
	if err != nil || !slices.EqualFunc(without(left, name), without(nodes, name), sameNode) {
		return "", fmt.Errorf("cannot change %s in %s: other lines there would change, too; change it there by hand",
			name, OptionsFile)
	}
	return changed, nil
}

// optionNodes returns the names and values of a text of OptionsFile, alternately.
func optionNodes(text string) ([]*yaml.Node, error) {
	d := yaml.NewDecoder(strings.NewReader(text))
	var first, second yaml.Node
	if err := d.Decode(&first); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, unusable(err)
	}
	root := first.Content[0]
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, unusable(errors.New("it has a second document"))
	}
	switch {
	case root.Kind == yaml.MappingNode && root.Style&yaml.FlowStyle == 0:
		return root.Content, nil
	case root.Tag == "!!null":
		return nil, nil
	}
	return nil, unusable(errors.New("it has another form"))
}

// unusable reports a file that is not a list of options.
func unusable(err error) error {
	return fmt.Errorf("cannot read %s: want lines `option: value`: %w", OptionsFile, err)
}

// span returns the lines from, and up to before to, of an option. A line that is neither
// empty nor a comment belongs to the option before it. Each other one does if the value lacks
// it. to is 0 if the lines alone have another value.
func span(lines []string, nodes []*yaml.Node, i int) (from, to int) {
	from, limit := nodes[i].Line-1, len(lines)
	if i+2 < len(nodes) {
		limit = min(nodes[i+2].Line-1, limit)
	}
	for to = limit; to > from+1; to-- {
		if l := strings.TrimSpace(lines[to-1]); l != "" && l[0] != '#' {
			break
		}
	}
	for ; from < to && to <= limit; to++ {
		alone, err := optionNodes(strings.Join(lines[from:to], ""))
		if err == nil && slices.EqualFunc(alone, nodes[i:i+2], sameNode) {
			return from, to
		}
	}
	return 0, 0
}

// without returns the nodes of the other options.
func without(nodes []*yaml.Node, name string) (others []*yaml.Node) {
	for pair := range slices.Chunk(nodes, 2) {
		if pair[0].Value != name {
			others = append(others, pair...)
		}
	}
	return others
}

// sameNode reports whether two nodes have the same content, wherever they are.
func sameNode(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor &&
		slices.EqualFunc(a.Content, b.Content, sameNode)
}

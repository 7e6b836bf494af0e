package top

import "slices"

// key identifies a pressed key: a character, or one of the constants below.
type key rune

const (
	keyUp key = -1 - iota
	keyDown
	keyLeft
	keyRight
	keyPageUp
	keyPageDown
	keyHome
	keyEnd
	keyEscape
	keySuspend
)

// sequences maps the texts of terminals to keys.
var sequences = map[string]key{
	"[A": keyUp, "[B": keyDown, "[C": keyRight, "[D": keyLeft,
	"OA": keyUp, "OB": keyDown, "OC": keyRight, "OD": keyLeft,
	"[5~": keyPageUp, "[6~": keyPageDown, "[H": keyHome, "[F": keyEnd, "OH": keyHome, "OF": keyEnd,
	"[1~": keyHome, "[4~": keyEnd,
}

// parseKeys splits the input of a terminal. An escape character alone is a key. Unknown
// sequences are dropped.
func parseKeys(input []byte) (out []key) {
	for len(input) > 0 {
		c := input[0]
		input = input[1:]
		switch {
		case c == 0x1a:
			out = append(out, keySuspend)
		case c != 0x1b:
			out = append(out, key(c))
		case len(input) == 0 || input[0] != '[' && input[0] != 'O':
			out = append(out, keyEscape)
		default:
			end := 1 // of a CSI or SS3 sequence (ECMA-48)
			for end < len(input) && input[end] < 0x40 {
				end++
			}
			end = min(end+1, len(input))
			if k, known := sequences[string(input[:end])]; known {
				out = append(out, k)
			}
			input = input[end:]
		}
	}
	return out
}

// Press applies a key, and reports whether the person quits.
func (v *View) Press(k key) (quit bool) {
	switch k {
	case 'q', 'Q':
		return true
	case 'h', '?':
		v.help = !v.help
		return false
	case 'f', ' ':
		v.frozen = !v.frozen
		return false
	case keyEscape:
		if v.help {
			v.help = false
		} else {
			v.detail = false
		}
		return false
	}
	switch {
	case v.help:
	case v.detail:
		v.pressInDetail(k)
	default:
		v.pressInTable(k)
	}
	return false
}

func (v *View) pressInTable(k key) {
	switch k {
	case 's':
		v.order = (v.order + 1) % orders
	case 'S':
		v.order = (v.order + orders - 1) % orders
	case 'a':
		v.AllPartitions = !v.AllPartitions
	case keyUp, 'k':
		v.move(-1)
	case keyDown, 'j':
		v.move(1)
	case keyPageUp:
		v.move(-v.page)
	case keyPageDown:
		v.move(v.page)
	case keyHome, 'g':
		v.move(-len(v.keys))
	case keyEnd, 'G':
		v.move(len(v.keys))
	case '\n', '\r':
		v.detail, v.detailOffset = true, 0
	}
}

func (v *View) pressInDetail(k key) {
	switch k {
	case keyLeft:
		v.moveGPU(-1)
	case keyRight:
		v.moveGPU(1)
	case keyUp, 'k':
		v.detailOffset = max(0, v.detailOffset-1)
	case keyDown, 'j':
		v.detailOffset = min(v.detailMax, v.detailOffset+1)
	case '\n', '\r':
		v.detail = false
	}
}

// move selects another line of the table.
func (v *View) move(by int) {
	if len(v.keys) > 0 {
		at := max(0, slices.Index(v.keys, v.selected))
		v.selected = v.keys[max(0, min(len(v.keys)-1, at+by))]
	}
}

// moveGPU selects another GPU.
func (v *View) moveGPU(by int) {
	before := gpuOf(v.selected)
	if v.selected == "" && len(v.keys) > 0 {
		before = gpuOf(v.keys[0])
	}
	at := max(0, slices.Index(v.keys, v.selected)) + by
	for ; at >= 0 && at < len(v.keys); at += by {
		if gpuOf(v.keys[at]) != before {
			v.selected, v.detailOffset = gpuOf(v.keys[at]), 0
			return
		}
	}
}

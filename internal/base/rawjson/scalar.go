package rawjson

import (
	"unicode/utf16"
	"unicode/utf8"
)

// text scans the string at i. plain reports whether its content equals its bytes.
func (p *parser) text(i int) (end int, plain bool, err error) {
	plain = true
	for i++; i < len(p.data); i++ {
		switch c := p.data[i]; {
		case c == '"':
			return i + 1, plain, nil
		case c < ' ':
			return i, false, p.bad(i, "no control character in a string")
		case c >= utf8.RuneSelf:
			plain = false
		case c == '\\':
			plain = false
			i++
			if i < len(p.data) && p.data[i] == 'u' {
				for range 4 {
					if i++; i >= len(p.data) || !isHex(p.data[i]) {
						return i, false, p.bad(i, "a hex digit")
					}
				}
			} else if i >= len(p.data) || escaped(p.data[i]) == 0 {
				return i, false, p.bad(i, "an escape")
			}
		}
	}
	return i, false, p.bad(i, "a closing quote")
}

// escaped returns the meaning of the byte after a backslash, or 0.
func escaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

func (p *parser) word(i int, word string) (int, error) {
	for k := range len(word) {
		if i+k >= len(p.data) || p.data[i+k] != word[k] {
			return i, p.bad(i+k, word)
		}
	}
	return i + len(word), nil
}

// digits scans one or more digits.
func (p *parser) digits(i int) (int, error) {
	if i >= len(p.data) || !isDigit(p.data[i]) {
		return i, p.bad(i, "a digit")
	}
	for i < len(p.data) && isDigit(p.data[i]) {
		i++
	}
	return i, nil
}

func (p *parser) number(i int) (int, error) {
	var err error
	if p.data[i] == '-' {
		i++
	}
	if i < len(p.data) && p.data[i] == '0' {
		i++
	} else if i, err = p.digits(i); err != nil {
		return i, err
	}
	if i < len(p.data) && p.data[i] == '.' {
		if i, err = p.digits(i + 1); err != nil {
			return i, err
		}
	}
	if i < len(p.data) && (p.data[i] == 'e' || p.data[i] == 'E') {
		i++
		if i < len(p.data) && (p.data[i] == '+' || p.data[i] == '-') {
			i++
		}
		if i, err = p.digits(i); err != nil {
			return i, err
		}
	}
	return i, nil
}

// unquote decodes the text between quotes as encoding/json does. Invalid UTF-8, and half of
// a surrogate pair, becomes U+FFFD.
func unquote(raw []byte) []byte {
	out := make([]byte, 0, len(raw)+8)
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			r, size := utf8.DecodeRune(raw[i:])
			out = utf8.AppendRune(out, r)
			i += size
		case raw[i+1] != 'u':
			out = append(out, escaped(raw[i+1]))
			i += 2
		default:
			r := hex4(raw[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(raw) >= i+6 && raw[i] == '\\' && raw[i+1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(raw[i+2:]))
				}
				if r = pair; pair != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

func hex4(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(out []byte, s string) []byte {
	const digits = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
			i++
		case c < ' ' || c == 0x7f:
			out = append(out, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			out = utf8.AppendRune(out, r)
			i += size
		}
	}
	return append(out, '"')
}

// AppendStrings appends a list of strings.
func AppendStrings(out []byte, list []string) []byte {
	out = append(out, '[')
	for i, s := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = AppendString(out, s)
	}
	return append(out, ']')
}

package rawjson

import "unicode/utf8"

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

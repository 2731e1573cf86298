package websocket

import "unicode/utf8"

// A textCheck checks text that arrives in pieces. A piece may end within a character.
type textCheck struct {
	rest [utf8.UTFMax]byte // the first bytes of an incomplete character
	n    int
}

// add checks p, the next bytes of the text. It returns false if they are not UTF-8.
func (c *textCheck) add(p []byte) bool {
	for c.n > 0 && len(p) > 0 {
		c.rest[c.n] = p[0]
		c.n++
		p = p[1:]
		if utf8.FullRune(c.rest[:c.n]) {
			if !utf8.Valid(c.rest[:c.n]) {
				return false
			}
			c.n = 0
		}
	}
	end := len(p)
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if b := p[len(p)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				end -= i
				c.n = copy(c.rest[:], b)
			}
			break
		}
	}
	return utf8.Valid(p[:end])
}

func (c *textCheck) complete() bool { return c.n == 0 }

package chunk

// JSON returns a Cutter that cuts between consecutive JSON values, with or without white space
// between them. White space after a value belongs to that value if it arrived in the same chunk,
// and otherwise to the next value.
//
// JSON only finds the ends of values, and does not reject invalid JSON. Adjacent numbers or words
// without a space between them are one value. To find the end of a number or word, JSON must see
// the next byte, which does not count for [MaxRecord].
func JSON() Cutter { return jsonValues{} }

// jsonValues is the Cutter that the function JSON returns. Its state (scan.state) is one number.
// The low two bits (jsonModeBits) are the mode: jsonPlain, jsonString, jsonEscaped or jsonScalar.
// The other bits count the open brackets.
type jsonValues struct{}

const (
	jsonPlain   = iota // between values, or between brackets and outside of strings
	jsonString         // in a string
	jsonEscaped        // in a string, after a backslash
	jsonScalar         // in a number or a word, outside of brackets

	jsonModeBits = 2
	jsonBracket  = 1 << jsonModeBits
	jsonModes    = jsonBracket - 1
)

// Each table classifies a byte: jsonTop outside of brackets, jsonNested within brackets, and
// jsonText in a string.
var (
	jsonTop = [256]uint8{' ': isSpace, '\t': isSpace, '\r': isSpace, '\n': isSpace, '"': isQuote,
		'{': isOpen, '[': isOpen}
	jsonNested = [256]uint8{'"': isQuote, '{': isOpen, '[': isOpen, '}': isClose, ']': isClose}
	jsonText   = [256]uint8{'"': isQuote, '\\': isEscape}
)

const (
	isOther = iota
	isSpace
	isQuote
	isOpen
	isClose
	isEscape
)

func (jsonValues) cut(w *scan) (end int) {
	p, i, state := w.data, w.seen, w.state
	for {
		if state == 0 && i > 0 {
			if i > w.limit && end > 0 {
				break
			}
			end = i
		}
		if i == len(p) {
			break
		}
		switch state {
		case 0:
			i, state = beginValue(p, i)
		case jsonScalar:
			for i < len(p) && jsonTop[p[i]] == isOther {
				i++
			}
			if i < len(p) {
				state = 0
			}
		default:
			i, state = endValue(p, i, state)
		}
	}
	w.seen, w.state = i, state
	return end
}

func (jsonValues) whole(w *scan) bool { return w.state == 0 || w.state == jsonScalar }

// beginValue processes p[i], a byte between two JSON values. It returns the position of the next
// byte to process, and the new state of the scan:
//
//   - After a space, the state is still 0, between two values.
//   - After the first byte of a string, array or object, the state is inside that value.
//   - Any other byte, even a closing bracket, is treated as the start of a scalar, such as a
//     number.
func beginValue(p []byte, i int) (next, state int) {
	switch jsonTop[p[i]] {
	case isSpace:
		return i + 1, 0
	case isQuote:
		return i + 1, jsonString
	case isOpen:
		return i + 1, jsonBracket
	}
	return i, jsonScalar
}

// endValue scans the rest of a string, array or object from p[i]. It returns the position after the
// value, or len(p), and the new state. It does not check that brackets match.
func endValue(p []byte, i, state int) (next, nextState int) {
	open, inString := state&^jsonModes, state&jsonModes != jsonPlain
	if state&jsonModes == jsonEscaped {
		i++
	}
	for {
		if inString {
			if i, state = endString(p, i); state != jsonPlain || open == 0 {
				return i, open | state
			}
		}
		for inString = false; !inString; {
			if i == len(p) {
				return i, open
			}
			class := jsonNested[p[i]]
			i++
			switch class {
			case isOther:
			case isQuote:
				inString = true
			case isOpen:
				open += jsonBracket
			default:
				if open -= jsonBracket; open == 0 {
					return i, 0
				}
			}
		}
	}
}

// endString scans the rest of a JSON string from p[i]. If the string ends in p, endString returns
// the position after it and jsonPlain. Otherwise it returns len(p) and the mode in which to
// continue.
func endString(p []byte, i int) (next, mode int) {
	for i < len(p) {
		class := jsonText[p[i]]
		i++
		switch class {
		case isOther:
		case isQuote:
			return i, jsonPlain
		default:
			if i == len(p) {
				return i, jsonEscaped
			}
			i++
		}
	}
	return i, jsonString
}

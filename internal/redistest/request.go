package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// What is kept of a request: enough to tell which it was, and little enough for any number of any size.
const (
	keptWords = 16
	keptBytes = 64 // of a word
)

var errRequest = errors.New("redistest: not a request")

// readRequest reads a request and returns the beginnings of its first words. The words are read to their ends, but not
// into memory. A line that is no array is an inline command. r's buffer bounds a line.
func readRequest(r *bufio.Reader) ([]string, error) {
	line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(line, "*") {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = word[:min(len(word), keptBytes)]
		}
		return words[:min(len(words), keptWords)], nil
	}
	n, err := size(line, '*')
	if err != nil {
		return nil, err
	}
	var words []string
	for i := range n {
		word, err := readWord(r)
		if err != nil {
			return nil, noEOF(err)
		}
		if i < keptWords {
			words = append(words, word)
		}
	}
	return words, nil
}

// readWord reads a bulk string and returns its beginning.
func readWord(r *bufio.Reader) (string, error) {
	line, err := readLine(r)
	if err != nil {
		return "", err
	}
	n, err := size(line, '$')
	if err != nil {
		return "", err
	}
	kept := make([]byte, min(n, keptBytes))
	if _, err := io.ReadFull(r, kept); err != nil {
		return "", err
	}
	if _, err := io.CopyN(io.Discard, r, n-int64(len(kept))); err != nil {
		return "", err
	}
	end, err := readLine(r)
	if err == nil && end != "" {
		err = fmt.Errorf("%w: %q behind a word", errRequest, end)
	}
	return string(kept), err
}

func size(line string, kind byte) (int64, error) {
	if line == "" || line[0] != kind {
		return 0, fmt.Errorf("%w: %q", errRequest, line)
	}
	n, err := strconv.ParseInt(line[1:], 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %q", errRequest, line)
	}
	return n, nil
}

func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if len(line) > 0 {
			err = noEOF(err)
		}
		return "", err
	}
	return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
}

// noEOF makes of an end in the middle of a request what it is.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

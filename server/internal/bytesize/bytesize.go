// Package bytesize parses and formats numbers of bytes with units, such as 16MiB, 50GB or 4096.
package bytesize

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// A Size is a number of bytes. It can be the value of a flag.
type Size int64

// String returns the number with a unit, such as 16MiB.
func (s *Size) String() string { return Format(int64(*s)) }

// Set parses a number of bytes, such as 4096, 16MiB or 50GB.
func (s *Size) Set(text string) error {
	n, err := Parse(text)
	*s = Size(n)
	return err
}

// Type returns the name of the type for the help text.
func (*Size) Type() string { return "bytes" }

// An Int is a Size that fits into an int on every machine.
type Int int

// String returns the number with a unit, such as 16MiB.
func (s *Int) String() string { return Format(int64(*s)) }

// Set parses a number of bytes, such as 4096, 16MiB or 1GB. It refuses 2 GiB and more.
func (s *Int) Set(text string) error {
	n, err := Parse(text)
	if err == nil && n > math.MaxInt32 {
		err = errors.New("want less than 2GiB")
	}
	*s = Int(n)
	return err
}

// Type returns the name of the type for the help text.
func (*Int) Type() string { return "bytes" }

// units lists the units of bytes that Parse accepts, such as KiB and MB. The first four, from the
// largest to the smallest, are the units that Format uses.
var units = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3},
	{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10},
}

// Format formats a number of bytes. It uses the largest of the units TiB, GiB, MiB and KiB that
// divides the number exactly, or no unit if none does.
func Format(n int64) string {
	for _, u := range units[:4] {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// Parse parses a number with an optional unit. The unit may be in upper or lower case. KiB to TiB
// and K to T are powers of 1024. KB to TB are powers of 1000.
func Parse(s string) (int64, error) {
	digits, size := strings.ToUpper(s), int64(1)
	for _, u := range units {
		if number, ok := strings.CutSuffix(digits, strings.ToUpper(u.name)); ok {
			digits, size = number, u.size
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62/size {
		return 0, errors.New("want a whole number of bytes, as in 4096, 128KiB, 16MiB or 50GB")
	}
	return n * size, nil
}

// Package files puts the same load on servers of files, in turns, and compares
// what they needed for it; and it compares ways to read a file.
package files

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Case is which file so many connections ask for, over and over.
type Case struct {
	Size  int64 // of the file
	Conns int
	TLS   bool
}

// units are what a size is written in, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Size is a number of bytes as people write it.
func Size(n int64) string {
	for _, u := range units {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// String is what ParseCase reads.
func (c Case) String() string {
	s := fmt.Sprintf("%sx%d", strings.ReplaceAll(strings.TrimSuffix(Size(c.Size), " B"), " ", ""), c.Conns)
	if c.TLS {
		s += "+tls"
	}
	return s
}

// Title says the same in a table's heading.
func (c Case) Title() string {
	s := fmt.Sprintf("%s, %d connections", Size(c.Size), c.Conns)
	if c.TLS {
		s += ", TLS"
	}
	return s
}

// ParseCase reads "64KiBx100" or "1MiBx8+tls".
func ParseCase(s string) (Case, error) {
	var c Case
	size, conns, ok := strings.Cut(s, "x")
	conns, c.TLS = strings.CutSuffix(conns, "+tls")
	factor := int64(1)
	for _, u := range units {
		if n, found := strings.CutSuffix(size, u.name); found {
			size, factor = n, u.bytes
		}
	}
	n, err1 := strconv.ParseInt(size, 10, 32)
	var err2 error
	c.Conns, err2 = strconv.Atoi(conns)
	if !ok || err1 != nil || err2 != nil || n < 1 || c.Conns < 1 {
		return Case{}, fmt.Errorf("files: case %q: want SIZExCONNECTIONS, as in 64KiBx100 or 1MiBx8+tls", s)
	}
	c.Size = n * factor
	return c, nil
}

// A Site is what a contender has to serve.
type Site struct {
	Dir  string `json:"dir"`  // files
	Cert string `json:"cert"` // PEM file; "" for plain HTTP
	Key  string `json:"key"`

	// CPUs is where the server may run, as taskset(1) has it: "" for anywhere.
	CPUs string `json:"-"`
}

// URL is where a server of the site at addr has its files.
func (s Site) URL(addr string) string {
	if s.Cert != "" {
		return "https://" + addr + "/"
	}
	return "http://" + addr + "/"
}

// A Contender can be started any number of times, one at a time.
type Contender interface {
	// Key is what ParseContenders calls it.
	Key() string
	Name() string
	// Check says what is missing to start it, as a measure.ErrMissing.
	Check() error
	// Start runs the server in processes of its own; files it needs go to dir.
	Start(ctx context.Context, dir string, s Site) (*Server, error)
}

// Contenders are all that there are.
func Contenders() []Contender {
	var all []Contender
	for _, h := range handlers {
		all = append(all, goServer{h})
	}
	for _, n := range []Nginx{{1, false}, {2, false}, {1, true}, {2, true}} {
		all = append(all, n)
	}
	return all
}

// Keys are what they are called on a command line.
func Keys() (keys []string) {
	for _, c := range Contenders() {
		keys = append(keys, c.Key())
	}
	return keys
}

// ParseContenders reads a list of keys, as in "millrace,fileserver,nginx".
func ParseContenders(list string) ([]Contender, error) {
	all := Contenders()
	var chosen []Contender
	for _, key := range strings.Split(list, ",") {
		i := slices.Index(Keys(), strings.TrimSpace(key))
		if i < 0 {
			return nil, fmt.Errorf("files: no contender %q: there are %s", key, strings.Join(Keys(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Package files puts the same load of wrk on servers of files, in turns, and compares what they need for it. Before a case
// is measured every contender must deliver the file's bytes.
package files

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// A testCase says which file how many connections ask for, again and again.
type testCase struct {
	Size  int64 // of the file
	Conns int
	TLS   bool
}

// units are what a size is written in, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// sizeName is a number of bytes as people write it.
func sizeName(n int64) string {
	for _, u := range units {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// String is what parseCase reads.
func (c testCase) String() string {
	s := fmt.Sprintf("%sx%d", strings.ReplaceAll(strings.TrimSuffix(sizeName(c.Size), " B"), " ", ""), c.Conns)
	if c.TLS {
		s += "+tls"
	}
	return s
}

// Title says the same in a table's heading.
func (c testCase) Title() string {
	s := fmt.Sprintf("%s, %d connections", sizeName(c.Size), c.Conns)
	if c.TLS {
		s += ", TLS"
	}
	return s
}

// parseCase reads "64KiBx100" or "1MiBx8+tls".
func parseCase(s string) (testCase, error) {
	var c testCase
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
		return testCase{}, fmt.Errorf("files: case %q: want SIZExCONNECTIONS, as in 64KiBx100 or 1MiBx8+tls", s)
	}
	c.Size = n * factor
	return c, nil
}

// A site is what a contender has to serve.
type site struct {
	Dir  string // files
	Cert string // PEM file; "" for plain HTTP
	Key  string
}

// URL is where a server of the site at addr has its files.
func (s site) URL(addr string) string {
	if s.Cert != "" {
		return "https://" + addr + "/"
	}
	return "http://" + addr + "/"
}

// A contender can be started any number of times, one at a time.
type contender interface {
	// Key is what parseContenders calls it.
	Key() string
	Name() string
	// Check returns a measure.ErrMissing if the contender cannot be started here.
	Check() error
	// Start runs the server in processes of its own; files it needs go to dir.
	Start(ctx context.Context, dir string, s site) (*measure.Server, error)
}

// contenders are all that there are.
func contenders() []contender {
	var all []contender
	for _, h := range handlers {
		all = append(all, goServer{h})
	}
	for _, n := range []nginx{
		{Workers: 1}, {Workers: 2}, {Workers: 1, Cache: true}, {Workers: 2, Cache: true}, {Workers: 1, PushLast: true},
		{Workers: 1, Cache: true, PushLast: true},
	} {
		all = append(all, n)
	}
	return all
}

// keys are what the contenders are called on a command line.
func keys() (all []string) {
	for _, c := range contenders() {
		all = append(all, c.Key())
	}
	return all
}

// parseContenders reads a list of keys, as in "millrace,fileserver,nginx".
func parseContenders(list string) ([]contender, error) {
	all := contenders()
	var chosen []contender
	for _, key := range strings.Split(list, ",") {
		i := slices.Index(keys(), strings.TrimSpace(key))
		if i < 0 {
			return nil, fmt.Errorf("files: no contender %q: there are %s", key, strings.Join(keys(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

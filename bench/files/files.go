// Package files applies the same load of wrk to file servers, in turns, and compares their costs.
// Before a case is measured every contender must deliver the file's bytes.
//
// Ten servers are started in two ways, as handlers in a child process and as nginx, and a script
// makes wrk report exact numbers.
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
	size  int // of the file
	conns int
}

// String returns the case in the form that parseCase parses.
func (c testCase) String() string { return fmt.Sprintf("%sx%d", measure.SizeName(c.size), c.conns) }

// parseCase reads "64KiBx100".
func parseCase(s string) (c testCase, err error) {
	size, conns, ok := strings.Cut(s, "x")
	c.size, err = measure.ParseSize(size)
	if err == nil {
		c.conns, err = strconv.Atoi(conns)
	}
	if !ok || err != nil || c.conns < 1 {
		return testCase{}, fmt.Errorf("-case %q: want SIZExCONNECTIONS, as in 64KiBx100", s)
	}
	return c, nil
}

// A contender can be started any number of times, one at a time.
type contender struct {
	key, name string // key is its name on the command line
	// check returns a measure.ErrMissing if the contender cannot be started here.
	check func() error
	// start starts a server of the files in root in separate processes; files that it needs go to
	// dir.
	start func(ctx context.Context, dir, root string) (*measure.Server, error)
}

// contenders are all that there are.
func contenders() (all []contender) {
	for _, h := range handlers {
		all = append(all, contender{h.key, h.name, func() error { return nil }, h.start})
	}
	for _, n := range nginxes {
		all = append(all, contender{n.key, n.name,
			func() error { _, err := findNginx(); return err }, n.start})
	}
	return all
}

// keys returns the contenders' names on a command line.
func keys() (all []string) {
	for _, c := range contenders() {
		all = append(all, c.key)
	}
	return all
}

// parseContenders reads a list of keys, as in "millrace,fileserver,nginx".
func parseContenders(list string) (chosen []contender, err error) {
	all := contenders()
	for _, key := range strings.Split(list, ",") {
		i := slices.Index(keys(), strings.TrimSpace(key))
		if i < 0 {
			return nil, fmt.Errorf("files: no contender %q: there are %s", key,
				strings.Join(keys(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

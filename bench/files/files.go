// Package files runs wrk with the same load against several file servers, and compares the costs of
// the servers. Before it measures a server, it checks that the server delivers the bytes of the
// file.
//
// Some contenders are Go handlers in a child process. The others are nginx with different settings.
// A script makes wrk report exact numbers.
package files

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// A testCase is a file size and a number of connections that request the file repeatedly.
type testCase struct {
	size  int // of the file, in bytes
	conns int
}

// String formats c so that parseCase can parse it, as in "64KiBx100".
func (c testCase) String() string { return fmt.Sprintf("%sx%d", measure.SizeName(c.size), c.conns) }

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

// A contender is a server. It can be started repeatedly, but only one instance may run at a time.
type contender struct {
	key, name string // key is the name on the command line
	// check returns an error that wraps measure.ErrMissing if a required program is not installed.
	check func() error
	// start runs a server for the files in root, in child processes. The server's own files, such
	// as its configuration, are in dir.
	start func(ctx context.Context, dir, root string) (*measure.Server, error)
}

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

func keys() (all []string) {
	for _, c := range contenders() {
		all = append(all, c.key)
	}
	return all
}

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

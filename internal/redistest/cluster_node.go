package redistest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// span is a range of slots, both ends included.
type span struct{ first, last int }

// node is a line of CLUSTER NODES: what one node thinks of another, or of itself.
type node struct {
	id     string
	flags  []string
	master string // the id of a replica's master; "-" for a master
	epoch  int
	slots  []span
}

func (n node) is(flag string) bool { return slices.Contains(n.flags, flag) }

func (n node) owns(slot int) bool {
	return slices.ContainsFunc(n.slots, func(s span) bool { return s.first <= slot && slot <= s.last })
}

// nodes returns what s knows of the cluster.
func (s *Server) nodes(ctx context.Context) ([]node, error) {
	reply, err := s.do(ctx, "CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	text, _ := reply.(string)
	return parseNodes(text)
}

// parseNodes reads the lines "id address flags master ping-sent pong-recv config-epoch link-state slot ...".
func parseNodes(text string) ([]node, error) {
	var nodes []node
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("redistest: CLUSTER NODES says %q", line)
		}
		n := node{id: f[0], flags: strings.Split(f[2], ","), master: f[3]}
		n.epoch, _ = strconv.Atoi(f[6])
		for _, word := range f[8:] {
			if strings.HasPrefix(word, "[") {
				continue // a slot that is moving
			}
			first, last, ok := strings.Cut(word, "-")
			if !ok {
				last = first
			}
			a, err1 := strconv.Atoi(first)
			b, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("redistest: CLUSTER NODES says %q", line)
			}
			n.slots = append(n.slots, span{a, b})
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// self returns what s thinks of itself.
func (s *Server) self(ctx context.Context) (node, error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return node{}, err
	}
	for _, n := range nodes {
		if n.is("myself") {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("redistest: %s does not know itself", s)
}

// owner returns the id of the node that s thinks owns the slot; empty if none does.
func (s *Server) owner(ctx context.Context, slot int) (string, error) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if n.owns(slot) {
			return n.id, nil
		}
	}
	return "", nil
}

package relay

import (
	"fmt"
	"strings"
	"time"
)

// defaultLatency is the bound that millrace serve has unless it is told otherwise.
const defaultLatency = 50 * time.Millisecond

// Names says which contenders there are.
const Names = "nginx, node, plain, plain-share, millrace[@TIME] where the time is the latency bound, and " +
	"bare[-loop][-nagle][@TIME] where the tags of that time leave together"

// ParseContenders reads a list of names, as in
//
//	nginx,node,plain,plain-share,millrace@50ms,millrace@0,bare,bare-loop,bare-loop-nagle,bare@20ms
func ParseContenders(list string, b Builder, serveArgs []string) ([]Contender, error) {
	var all []Contender
	for _, spec := range strings.Split(list, ",") {
		c, err := parseContender(strings.TrimSpace(spec), b, serveArgs)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func parseContender(spec string, b Builder, serveArgs []string) (Contender, error) {
	name, bound, timed := strings.Cut(spec, "@")
	var d time.Duration
	if timed {
		var err error
		if d, err = time.ParseDuration(bound); err != nil {
			return nil, fmt.Errorf("relay: contender %q: %w", spec, err)
		}
	}
	switch {
	case name == "nginx" && !timed:
		return Nginx{}, nil
	case name == "node" && !timed:
		return Node{Builder: b}, nil
	case (name == "plain" || name == "plain-share") && !timed:
		return Plain{Builder: b, Share: name == "plain-share"}, nil
	case name == "millrace":
		if !timed {
			d = defaultLatency
		}
		return Millrace{Builder: b, Latency: d, Args: serveArgs}, nil
	case name == "bare" || strings.HasPrefix(name, "bare-"):
		bare := Bare{Builder: b, Batch: d}
		for _, option := range strings.Split(name, "-")[1:] {
			switch option {
			case "loop":
				bare.Loop = true
			case "nagle":
				bare.Nagle = true
			default:
				return nil, fmt.Errorf("relay: contender %q: a bare program is bare[-loop][-nagle][@TIME]", spec)
			}
		}
		return bare, nil
	}
	return nil, fmt.Errorf("relay: no contender %q: there are %s", spec, Names)
}

package plots

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// A Quantity is one of the two that a cell of bench-redis has, such as "1.02, 0.31 to 2.41 (0.88)".
type Quantity struct {
	name string
	in   *regexp.Regexp
}

// Time is the median in front, and CPU what is in brackets.
var (
	Time = Quantity{"time", regexp.MustCompile(`^([0-9.]+)`)}
	CPU  = Quantity{"CPU of the client", regexp.MustCompile(`\(([0-9.]+)\)$`)}
)

// Redis reads the table of bench-redis with that caption, and returns a group of bars for each size. All are multiples of the
// table's first contender.
func Redis(markdown, caption string, q Quantity) (measure.Bars, error) {
	_, markdown, ok := strings.Cut(markdown, "*"+caption)
	if !ok {
		return measure.Bars{}, fmt.Errorf("plots: there is no table %q", caption)
	}
	c := measure.Bars{Title: caption + ": " + q.name + ", x a raw socket's", Note: "less is better"}
	_, head, _ := strings.Cut(markdown, "| contender ")
	head, _, _ = strings.Cut(head, "| B/op")
	for _, size := range strings.Split(strings.Trim(head, "| "), "|") {
		c.Groups = append(c.Groups, measure.BarGroup{Title: strings.TrimSpace(size)})
	}
	for _, cells := range table(markdown, "| contender ") {
		if len(cells) <= len(c.Groups) {
			return measure.Bars{}, fmt.Errorf("plots: %q has a row of %d cells", caption, len(cells))
		}
		name := cells[0]
		if strings.HasSuffix(name, "µs a call") {
			continue
		}
		for i := range c.Groups {
			found := q.in.FindStringSubmatch(cells[1+i])
			if found == nil {
				return measure.Bars{}, fmt.Errorf("plots: %q, %s: no %s in %q", caption, name, q.name, cells[1+i])
			}
			v, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				return measure.Bars{}, fmt.Errorf("plots: %q, %s: %w", caption, name, err)
			}
			c.Groups[i].Bars = append(c.Groups[i].Bars, measure.Bar{Name: name, Value: v, Side: side(name)})
		}
	}
	if len(c.Groups[0].Bars) == 0 {
		return measure.Bars{}, fmt.Errorf("plots: the table %q is empty", caption)
	}
	return c, nil
}

func side(contender string) measure.Side {
	switch {
	case strings.HasPrefix(contender, "redisbuf"):
		return measure.Ours
	case strings.HasPrefix(contender, "go-redis"):
		return measure.Rival
	}
	return measure.Others
}

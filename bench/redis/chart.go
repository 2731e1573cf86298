package redis

import (
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// Chart draws the client's CPU of a task, a group of bars for each size.
func (p *Plan) Chart(t Task, goroutines int, results []Result) []byte {
	c := measure.Bars{
		Title: t.What + ": CPU of the client, x a raw socket's",
		Note:  "less is better",
	}
	for _, size := range p.Sizes {
		g := measure.BarGroup{Title: SizeName(size)}
		base := find(results, t, t.contenders[0].Name, size, goroutines)
		for _, who := range t.contenders {
			r := find(results, t, who.Name, size, goroutines)
			if r == nil || base == nil {
				continue
			}
			g.Bars = append(g.Bars, measure.Bar{Name: who.Name, Value: r.CPU.Over(base.CPU).Median(), Side: side(who.Name)})
		}
		c.Groups = append(c.Groups, g)
	}
	return c.SVG()
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

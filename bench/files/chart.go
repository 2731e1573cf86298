package files

import (
	"strings"

	"github.com/millrace-io/millrace/bench/measure"
)

// Chart draws what WriteTable says about CPU seconds a gigabyte: a group of
// bars for each case, as SVG.
func (p Plan) Chart(turns []Turn) []byte {
	c := measure.Bars{
		Title: "CPU seconds of the server a delivered gigabyte",
		Note:  "less is better; each group has a scale of its own",
	}
	for _, load := range p.Cases {
		g := measure.BarGroup{Title: load.Title()}
		for _, who := range p.Contenders {
			cost := series(turns, load, who.Name(), Turn.cpuPerGB).Median()
			g.Bars = append(g.Bars, measure.Bar{Name: who.Name(), Value: cost, Side: side(who.Key())})
		}
		c.Groups = append(c.Groups, g)
	}
	return c.SVG()
}

func side(key string) measure.Side {
	switch {
	case strings.Contains(key, "millrace"), key == "copy":
		return measure.Ours
	case strings.HasPrefix(key, "nginx"):
		return measure.Rival
	}
	return measure.Others
}

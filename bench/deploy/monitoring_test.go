package deploy

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// families are the metrics of a server, by name.
type families map[string]*dto.MetricFamily

// scrapeAll returns the metrics of a server with all services enabled.
func scrapeAll(t *testing.T) families {
	t.Helper()
	redis := redistest.Start(t).Addr()
	bin, err := measure.Build(t.Context(), t.TempDir(), measure.Millrace)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := measure.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s, err := measure.StartServer(t.Context(), addr,
		exec.Command(bin, "serve", "--listen", addr, "--rtmp", "",
			"--log-level", "warn", "--root", t.TempDir(), "--record", t.TempDir(), "--segments",
			"redis",
			"--redis", "redis://"+redis, "--cluster", "redis://"+redis,
			"--advertise", "http://"+addr, "--cluster-token", "token"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	defer http.DefaultClient.CloseIdleConnections()
	client := &http.Client{Timeout: time.Minute}
	res, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	parse := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parse.TextToMetricFamilies(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// byPrometheus are labels that Prometheus adds itself.
var byPrometheus = []string{"instance", "job"}

// check fails the test if an expression cannot be parsed, or names a metric, a label or a label
// value that the server does not have.
func (f families) check(t *testing.T, what, expression string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v in the expression %s", what, err, expression)
		return
	}
	found := 0
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok || selector.Name == "up" { // a metric of Prometheus itself
			return nil
		}
		found++
		family := f[selector.Name]
		if family == nil {
			t.Errorf("%s: the server has no metric %s", what, selector.Name)
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != model.MetricNameLabel && !slices.Contains(byPrometheus, m.Name) {
				if problem := matches(family, m); problem != "" {
					t.Errorf("%s: the metric %s: %s", what, selector.Name, problem)
				}
			}
		}
		return nil
	})
	if found == 0 && !strings.Contains(expression, "up{") {
		t.Errorf("%s: no metric in %s", what, expression)
	}
}

// matches returns the fault of a matcher: each of its values, separated by "|", must exist.
func matches(family *dto.MetricFamily, m *labels.Matcher) string {
	for value := range strings.SplitSeq(m.Value, "|") {
		there := slices.ContainsFunc(family.GetMetric(), func(metric *dto.Metric) bool {
			return slices.ContainsFunc(metric.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == m.Name && l.GetValue() == value
			})
		})
		if !there {
			return fmt.Sprintf("nothing has %s=%q", m.Name, value)
		}
	}
	return ""
}

// Prometheus accepts the rules, and the server has the metrics that they name.
func TestAlerts(t *testing.T) {
	all := scrapeAll(t)
	groups, errs := rulefmt.ParseFile(manifests+"alerts.yaml", false, model.UTF8Validation,
		parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		return
	}
	severities := []string{"critical", "warning", "info"}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all.check(t, rule.Alert, rule.Expr)
			if !slices.Contains(severities, rule.Labels["severity"]) ||
				rule.Annotations["summary"] == "" {
				t.Errorf("%s has the severity %q and the summary %q", rule.Alert,
					rule.Labels["severity"], rule.Annotations["summary"])
			}
		}
	}
}

// A dashboard has the fields of a Grafana dashboard that this test checks.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct {
			Name  string
			Query json.RawMessage
		}
	}
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ RefID, Expr string }
	}
}

// The dashboard's panels do not overlap, and the server has the metrics that they show.
func TestDashboard(t *testing.T) {
	all := scrapeAll(t)
	text, err := os.ReadFile(manifests + "grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: a second panel %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Errorf("%s lies on %q, or beside the dashboard", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all.check(t, p.Title, variables.Replace(target.Expr))
		}
	}
	names := make([]string, 0)
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Name == "instance" && !strings.Contains(string(v.Query), "millrace_build_info") {
			t.Errorf("the servers are found by %s", v.Query)
		}
	}
	if !slices.Equal(names, []string{"datasource", "instance"}) ||
		all["millrace_build_info"] == nil {
		t.Errorf("the dashboard asks for %q", names)
	}
}

// Command mutants plants faults in the code, one at a time, and reports the tests that find them:
//
//	mutants [-only REGEXP] [-quick]    test the faults; REGEXP selects some by "area: name"
//	mutants -check                     check that each fault still applies to the code
//	mutants -table                     print the table of the results
//	mutants -draw N -seed S DIR...     draw N faults from the lines of the packages in DIR
//
// The current directory is the root of the repository. docs/mutants.md describes the faults and the
// results. A fault is planted with an overlay of the go command, so the files of the repository
// never change.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const resultsFile = "tools/mutants/results.tsv"

func main() {
	only := flag.String("only", "", "test only faults that match this regular expression")
	quick := flag.Bool("quick", false, "run only the short tests of the fault's own package")
	check := flag.Bool("check", false, "check that each fault applies")
	table := flag.Bool("table", false, "print the table of the results")
	count := flag.Int("draw", 0, "draw this many faults")
	seed := flag.Uint64("seed", 1, "seed of -draw")
	flag.Parse()
	faults, err := readFaults("tools/mutants/faults")
	switch {
	case err != nil:
	case *count > 0:
		err = draw(*count, *seed, flag.Args())
	case *check:
		for _, f := range faults {
			_, applyErr := f.apply()
			err = errors.Join(err, applyErr)
		}
	case *table:
		printTable(faults, readResults())
	case *quick:
		err = run(faults, *only, stages[:1])
	default:
		err = run(faults, *only, stages)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A stage is one run of tests. The stages of a fault end with the first that fails.
type stage struct {
	name  string
	args  []string
	scope scope
}

// A scope selects the packages of a stage.
type scope int

const (
	own    scope = iota // the package of the fault
	parent              // the package in the parent directory, if there is one
	users               // all packages that use the package of the fault
)

var stages = []stage{
	{"package", []string{"-short"}, own},
	{"dependents", []string{"-short"}, parent},
	{"dependents", []string{"-short"}, users},
	{"race", []string{"-race"}, own},
	{"invariants", []string{"-tags=invariants"}, own},
}

// run tests the faults that match the regular expression only.
func run(faults []fault, only string, stages []stage) error {
	results := readResults()
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	t, err := newTester()
	if err != nil {
		return err
	}
	defer os.RemoveAll(t.dir)
	for i, f := range faults {
		if !match.MatchString(f.area + ": " + f.name) {
			continue
		}
		begun := time.Now()
		r := result{}
		if r.foundBy, r.test, err = t.test(f, stages); err != nil {
			return fmt.Errorf("%s: %s: %w", f.area, f.name, err)
		}
		r.seconds = fmt.Sprintf("%.0f", time.Since(begun).Seconds())
		fmt.Printf("%3d/%d  %-10s %5ss  %s: %s  %s\n", i+1, len(faults),
			cmp.Or(r.foundBy, "SURVIVOR"), r.seconds, f.area, f.name, r.test)
		results[f.name] = r
		if err := writeResults(faults, results); err != nil {
			return err
		}
	}
	printTable(faults, results)
	return nil
}

// A tester runs tests with one fault planted.
type tester struct {
	dir  string                   // temporary files
	uses map[string][]string      // the packages that a package or its tests use
	took map[string]time.Duration // duration of the tests of each package without a fault
}

func newTester() (*tester, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	t := &tester{dir: dir, uses: make(map[string][]string), took: make(map[string]time.Duration)}
	out, err := exec.Command("go", "list", "-f",
		`{{.ImportPath}} {{join .Deps " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`,
		"./...", "./redisbuf/...", "./server/...").Output()
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		t.uses[paths[0]] = paths[1:]
	}
	return t, err
}

// users returns the packages that use the package pkg, in their tests or otherwise.
func (t *tester) users(pkg string) (users []string) {
	for user, used := range t.uses {
		if slices.ContainsFunc(used, func(p string) bool {
			return p == pkg || slices.Contains(t.uses[p], pkg)
		}) {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	return users
}

// test runs the stages until one finds the fault. It returns the name of this stage, or "", and the
// first test that failed.
func (t *tester) test(f fault, stages []stage) (foundBy, test string, err error) {
	overlay, err := writeOverlay(t.dir, f)
	if err != nil {
		return "", "", err
	}
	pkg := path.Join(module, path.Dir(f.path))
	if t.took[pkg] == 0 {
		begun := time.Now()
		if out, failed := goTest("", 10*time.Minute, "-short", pkg); failed {
			return "", "", fmt.Errorf("the tests fail without a fault:\n%s", out)
		}
		t.took[pkg] = time.Since(begun)
	}
	for _, s := range stages {
		packages, limit := []string{pkg}, 20*time.Minute
		switch {
		case s.name == "package":
			limit = 30*time.Second + 4*t.took[pkg]
		case s.scope == parent && !slices.Contains(t.uses[path.Dir(pkg)], pkg):
			continue
		case s.scope == parent:
			packages[0] = path.Dir(pkg)
		case s.scope == users:
			packages = t.users(pkg)
		}
		out, failed := goTest(overlay, limit, slices.Concat(s.args, packages)...)
		if !failed {
			continue
		}
		test := firstFailure(out)
		if test == "" || strings.Contains(out, "[build failed]") {
			return "", "", fmt.Errorf("the tests did not run:\n%s", out)
		}
		return s.name, test, nil
	}
	return "", "", nil
}

// writeOverlay writes the file with the fault into dir. It returns the name of the overlay file
// that makes the go command use this file.
func writeOverlay(dir string, f fault) (string, error) {
	text, err := f.apply()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(f.path)
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	return overlay, errors.Join(err, os.WriteFile(mutated, text, 0o600),
		os.WriteFile(overlay, replace, 0o600))
}

// goTest runs go test. It passes the overlay in GOFLAGS, which also plants the fault in the
// programs that tests build.
func goTest(overlay string, limit time.Duration, args ...string) (out string, failed bool) {
	cmd := exec.Command("go", append([]string{"test", "-count=1", "-vet=off", "-failfast",
		"-parallel=8", "-timeout=" + limit.String()}, args...)...)
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	if slices.Contains(args, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	text, err := cmd.CombinedOutput()
	return string(text), err != nil
}

var failures = regexp.MustCompile(
	`(?m)^\s*--- FAIL: ([^ \n]+)|^(panic: .*|fatal error: .*|WARNING: DATA RACE|.*leak.*)$`)

// firstFailure returns the name of the first test that failed, and of its first subtest. If no test
// failed, it returns the panic or the leak that ended the tests.
func firstFailure(out string) (name string) {
	for _, m := range failures.FindAllStringSubmatch(out, -1) {
		if name != "" && !strings.HasPrefix(m[1], name+"/") {
			break
		}
		name = cmp.Or(m[1], m[2])
	}
	return name[:min(len(name), 80)]
}

// A result is the outcome of a fault.
type result struct {
	foundBy string // the name of a stage; "" for a survivor
	test    string // the first test that failed
	seconds string
}

// readResults returns the results by the names of their faults.
func readResults() map[string]result {
	results := make(map[string]result)
	text, _ := os.ReadFile(resultsFile) // the first run has no file
	for line := range strings.Lines(string(text)) {
		if c := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(c) == 5 {
			results[c[1]] = result{c[2], c[3], c[4]}
		}
	}
	return results
}

// writeResults writes the results in the order of the faults.
func writeResults(faults []fault, results map[string]result) error {
	var b bytes.Buffer
	for _, f := range faults {
		if r, ok := results[f.name]; ok {
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", f.area, f.name, r.foundBy, r.test, r.seconds)
		}
	}
	return os.WriteFile(resultsFile, b.Bytes(), 0o644)
}

// printTable prints the results of each area, and then the survivors.
func printTable(faults []fault, results map[string]result) {
	columns := []string{"package", "dependents", "race", "invariants", ""}
	counts := make(map[string]map[string]int) // by area and column
	areas, survivors := []string{}, ""
	for _, f := range faults {
		if !slices.Contains(areas, f.area) {
			areas = append(areas, f.area)
		}
		for _, area := range []string{f.area, "all"} {
			if counts[area] == nil {
				counts[area] = make(map[string]int)
			}
			counts[area]["planted"]++
			r, ok := results[f.name]
			if !ok {
				r.foundBy = "not tested"
			}
			counts[area][r.foundBy]++
			if area == "all" && r.foundBy == "" {
				survivors += "survivor: " + f.name + "\n"
			}
		}
	}
	fmt.Printf("\n| area | planted | %ssurvivors |\n%s\n", strings.Join(columns, " | "),
		strings.Repeat("|---", 3+len(columns)-1)+"|")
	for _, area := range append(areas, "all") {
		fmt.Printf("| %s | %d |", area, counts[area]["planted"])
		for _, c := range columns {
			fmt.Printf(" %d |", counts[area][c])
		}
		fmt.Println()
	}
	fmt.Print(survivors)
	if n := counts["all"]["not tested"]; n > 0 {
		fmt.Println("not tested:", n)
	}
}

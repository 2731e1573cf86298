package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// A Program is one benchmark, which measures its contenders and prints tables.
type Program struct {
	Name   string
	What   string // a description of one line, for the list of programs
	Rounds int    // the default of -rounds
	// the default of -turn, the length of a turn; 0 if turns have no fixed length
	Turn  time.Duration
	Parts []string // the tables that -only can select; nil if the program has no such flag
	Brief []string // the arguments that "bench all" adds to make the run short

	// Flags defines the program's own flags. It may be nil.
	Flags func(*flag.FlagSet)
	Run   func(context.Context, *Params) error
}

// Params are the parameters of one run of a program.
type Params struct {
	Rounds int
	Turn   time.Duration
	Only   []string // the names from Program.Parts that -only selects

	report  Report
	machine Machine
	command string
	out     io.Writer
	log     io.Writer
}

// Main runs a program with the arguments args. It prints tables to out and progress to log.
func (p *Program) Main(ctx context.Context, args []string, out, log io.Writer) error {
	params := Params{out: out, log: log}
	flags := flag.NewFlagSet("bench "+p.Name, flag.ContinueOnError)
	flags.SetOutput(log)
	flags.IntVar(&params.Rounds, "rounds", p.Rounds, "rounds")
	if p.Turn > 0 {
		flags.DurationVar(&params.Turn, "turn", p.Turn, "length of each turn, about")
	}
	only := strings.Join(p.Parts, ",")
	if p.Parts != nil {
		flags.StringVar(&only, "only", only, "tables")
	}
	flags.StringVar(&params.report.Dir, "out", "",
		"directory for the tables as Markdown, JSON and one HTML report; none if empty")
	if p.Flags != nil {
		p.Flags(flags)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%s: an extra argument %q", p.Name, flags.Arg(0))
	}
	if params.Rounds < 1 || p.Turn > 0 && params.Turn <= 0 {
		return errors.New("-rounds and -turn must be above 0")
	}
	for _, part := range strings.Split(only, ",") {
		if p.Parts != nil && !slices.Contains(p.Parts, part) {
			return fmt.Errorf("-only %q: there are %s", part, strings.Join(p.Parts, ", "))
		}
		params.Only = append(params.Only, part)
	}
	params.machine, params.command = ThisMachine(), command(p.Name, args)
	return p.Run(ctx, &params)
}

// command returns the command line that repeats the run. It omits the flag -out, which has no
// effect on the figures.
func command(name string, args []string) string {
	line := []string{"go run ./cmd/bench", name}
	for i := 0; i < len(args); i++ {
		if args[i] == "-out" || args[i] == "--out" {
			i++
		} else if !strings.HasPrefix(strings.TrimLeft(args[i], "-"), "out=") {
			line = append(line, args[i])
		}
	}
	return strings.Join(line, " ")
}

// Wants reports whether the flag -only selects the table with the given name.
func (p *Params) Wants(name string) bool { return slices.Contains(p.Only, name) }

// Logf writes a line to the progress log.
func (p *Params) Logf(format string, args ...any) {
	fmt.Fprintf(p.log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// Add prints a finished table. If the program has a directory for tables, Add also writes the
// table's files there.
func (p *Params) Add(t *Table) error {
	t.Machine, t.Command = p.machine, p.command
	if _, err := fmt.Fprintln(p.out, t.Markdown()); err != nil {
		return err
	}
	if p.report.Dir == "" {
		return nil
	}
	return p.report.Write(t)
}

// Dir returns the directory of the tables, or "" if there is none. A program may put further files
// there.
func (p *Params) Dir() string { return p.report.Dir }

// All runs the programs with the arguments in Brief, followed by args. If a program fails, All runs
// the others and then returns the error. An error that wraps [ErrMissing] is only logged.
func All(ctx context.Context, programs []*Program, args []string) error {
	var failed error
	for _, p := range programs {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(os.Stderr, "== %s\n", p.Name)
		err := p.Main(ctx, slices.Concat(p.Brief, args), os.Stdout, os.Stderr)
		switch {
		case errors.Is(err, ErrMissing):
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", p.Name, err)
		case err != nil:
			fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return failed
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/doctor"
	"github.com/millrace-io/millrace/internal/server"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	// blobsOpen is how many blobs a directory keeps open.
	blobsOpen = 128
	// maxPlanned bounds --viewers: more do not fit into one machine's memory, at 4 KiB each.
	maxPlanned = 1 << 24
)

func doctorCommand() *cobra.Command {
	plan := planned(server.Defaults())
	var asJSON, strict, all bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Report what this machine lacks for serving",
		Long: `Doctor looks at what a streaming server needs from its machine: limits, memory and processors (those of a container
included), the network's settings, and the disks. It prints what it finds, the worst first: the value, what to do, why, and
the command for that. It runs none of these commands, and changes nothing.

  bad      keeps --viewers from being served
  warn     works, and costs speed, memory or safety
  info     is asked about often, and is a choice or makes no difference
  unknown  cannot be seen from here: another system, a container, no permission
  ok       needs no change

The exit status is 0 if nothing is bad, 1 if something is bad or, with --strict, if there is a warning, and 2 if doctor
could not look.

It sees what a server started in its place would see, so run it as the server's user, in its container or unit.`,
		Example: `  # For 1000 viewers of streams
  millrace doctor

  # For 20000, with files and blobs
  millrace doctor --viewers 20000 --root /srv/films --blobs /srv/blobs

  # What a script wants to know
  millrace doctor --json | jq -r '.findings[] | select(.state == "bad") | .name + ": " + .command'`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plan.Viewers < 1 || plan.Viewers > maxPlanned {
				return cannotLook(fmt.Errorf("--viewers is %d, want from 1 to %d", plan.Viewers, maxPlanned))
			}
			report := doctor.Examine(doctor.Observe(), plan)
			if err := printFindings(cmd.OutOrStdout(), report, asJSON, all); err != nil {
				return cannotLook(err)
			}
			return verdict(report, strict)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&plan.Viewers, "viewers", plan.Viewers, "viewers and downloads at a time that are expected")
	f.StringVar(&plan.Root, "root", "", "the directory that serve is to be given as --root")
	f.StringVar(&plan.Blobs, "blobs", "", "the directory that serve is to be given as --blobs")
	f.BoolVar(&strict, "strict", false, "warnings make the exit status 1 as well")
	f.BoolVar(&all, "all", false, "also explain what needs no change")
	f.BoolVar(&asJSON, "json", false, "print JSON, with everything")
	return cmd
}

// planned returns the most that cfg serves. For the viewers it has 1000, as a start.
func planned(cfg server.Config) doctor.Plan {
	return doctor.Plan{
		Viewers:     1000,
		MaxViewers:  cfg.MaxViewers,
		Streams:     cfg.MaxStreams,
		KeepBytes:   cfg.KeepBytes,
		Unsent:      int64(cfg.Unsent),
		SendBuffer:  cfg.FilesSendBuffer,
		FilesOpen:   cfg.FilesOpen,
		BlobsOpen:   blobsOpen,
		ColdReaders: cfg.FilesColdReaders,
		Uploads:     cfg.MaxUploads,
	}
}

// verdict returns an error if a report has what makes the exit status 1.
func verdict(r doctor.Report, strict bool) error {
	bad, warn := r.Counts[doctor.Bad], r.Counts[doctor.Warn]
	switch {
	case bad > 0:
		return &statusError{fmt.Errorf("%d bad, %d warn", bad, warn), 1}
	case strict && warn > 0:
		return &statusError{fmt.Errorf("%d warn", warn), 1}
	}
	return nil
}

func printFindings(out io.Writer, r doctor.Report, asJSON, all bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // a command may have a >
		return e.Encode(r)
	}
	p := findingsPage{width: pageWidth, all: all}
	if isTerminal(out) {
		p.color = os.Getenv("NO_COLOR") == ""
		if columns, _, err := term.GetSize(int(out.(*os.File).Fd())); err == nil && columns > 0 {
			p.width = min(columns, pageWidth)
		}
	}
	p.report(r)
	_, err := io.WriteString(out, p.text.String())
	return err
}

const (
	pageWidth = 110 // longer lines are hard to read
	textWidth = 40  // a terminal that is too narrow for this breaks the lines itself
)

// A findingsPage is a report for people.
type findingsPage struct {
	text  strings.Builder
	width int
	color bool
	all   bool // give the reason for what is well, too
}

var stateColors = map[doctor.State]string{
	doctor.Bad: "31;1", doctor.Warn: "33", doctor.Info: "36", doctor.Unknown: "35", doctor.OK: "32",
}

func (p *findingsPage) report(r doctor.Report) {
	groupWidth, nameWidth := 0, 0
	for _, f := range r.Findings {
		groupWidth, nameWidth = max(groupWidth, len(f.Group)), max(nameWidth, len(f.Name))
	}
	const stateWidth = len(doctor.Unknown)
	for _, f := range r.Findings {
		state := fmt.Sprintf("%-*s", stateWidth, f.State)
		if p.color {
			state = "\x1b[" + stateColors[f.State] + "m" + state + "\x1b[0m"
		}
		fmt.Fprintf(&p.text, "%s  %-*s  %-*s  %s\n", state, groupWidth, f.Group, nameWidth, f.Name, f.Value)
		if f.State == doctor.OK && !p.all {
			continue
		}
		p.paragraph(stateWidth+2, "advice   ", f.Advice)
		p.paragraph(stateWidth+2, "why      ", f.Why)
		if f.Command != "" { // is not broken, so that it can be copied
			fmt.Fprintf(&p.text, "%*scommand  %s\n", stateWidth+2, "", f.Command)
		}
	}
	var counts []string
	for _, s := range doctor.States {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	fmt.Fprintf(&p.text, "\nfor %d viewers: %s\n", r.Viewers, strings.Join(counts, ", "))
}

// paragraph writes text in lines that fit, below each other behind a label. Nothing is written for no text.
func (p *findingsPage) paragraph(indent int, label, text string) {
	most := max(p.width-indent-len(label), textWidth)
	for line := ""; text != ""; label = strings.Repeat(" ", len(label)) {
		line, text = firstLine(text, most)
		fmt.Fprintf(&p.text, "%*s%s%s\n", indent, "", label, line)
	}
}

// firstLine cuts text behind the words that fit into most columns, one at least.
func firstLine(text string, most int) (line, rest string) {
	end, columns := len(text), 0
	for at, word := 0, ""; at < len(text); at += len(word) {
		word = text[at:]
		if i := strings.IndexByte(word[1:], ' '); i >= 0 {
			word = word[:1+i]
		}
		columns += utf8.RuneCountInString(word)
		if columns > most && at > 0 {
			end = at
			break
		}
	}
	return text[:end], strings.TrimLeft(text[end:], " ")
}

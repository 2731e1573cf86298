package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/server/internal/server"
)

// writePage writes docs/flags.md.
func (c *serveConfig) writePage(w io.Writer) {
	fmt.Fprint(w, `# The flags of millrace serve

Each flag can also be set as an environment variable, as in `+"`MILLRACE_MAX_VIEWERS`"+`, or in the file of
`+"`--config`"+`: see [deploy.md](deploy.md#configuration). Names that begin with `+"`$`"+` are variables and keys of the
file only. `+"`millrace serve --help`"+` shows the same list and the flags about configuration, and `+"`--print-config`"+` the effective values with their sources.

Sizes are numbers of bytes, or have a unit: `+"`KiB` to `TiB` and `K` to `T` are powers of 1024; `KB` to `TB`"+` are
powers of 1000. Durations are written as `+"`300ms`, `1m30s` or `2h`"+`.

<!-- Made by go test ./server/cmd/millrace -run TestFlagsPage -update -->
`)
	for _, group := range c.groups {
		fmt.Fprintf(w, "\n## %s\n\n| flag | default | meaning |\n|---|---|---|\n", group.Title)
		for _, flag := range group.Flags {
			c.writeRow(w, flag)
		}
	}
}

func (c *serveConfig) writeRow(w io.Writer, flag server.Flag) {
	name := "`--" + flag.Name + "`"
	if flag.NoCommand {
		name = "`$" + variable(flag.Name) + "`"
	}
	if flag.Page != "" {
		name = "[" + name + "](" + flag.Page + ")"
	}
	value := c.flags.Lookup(flag.Name).DefValue
	if value == "" || value == "false" {
		value = "–"
	}
	help := strings.NewReplacer("|", "\\|", "*", "\\*", "<", "&lt;").Replace(flag.Help)
	fmt.Fprintf(w, "| %s | %s | %s |\n", name, strings.ReplaceAll(value, "*", "\\*"), help)
}

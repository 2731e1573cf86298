package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version returns the version of the module, or the revision if the build has no version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}

// commit returns a text such as " (commit 1a2b3c, changed)". The word "changed" means that the
// source was modified after the commit. If the commit is unknown, the text is empty.
func commit() (text string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = "commit " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if text == "" {
		return ""
	}
	return " (" + text + changed + ")"
}

func versionLine() string {
	return fmt.Sprintf("millrace %s%s %s %s/%s\n", version(), commit(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprint(cmd.OutOrStdout(), versionLine())
		},
	}
}

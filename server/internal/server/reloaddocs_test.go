package server

import (
	"slices"
	"strings"
	"testing"
)

// docs/deploy.md lists each reloadable flag under "Reload".
func TestDeployPageListsReloadableFlags(t *testing.T) {
	_, section, _ := strings.Cut(userPage(t, "deploy.md"), "**Reload**")
	section, _, _ = strings.Cut(section, "The log names other changes")
	if section == "" {
		t.Fatal("docs/deploy.md has no section Reload")
	}
	words := strings.Split(section, "`")
	for _, flag := range Reloadable {
		if !slices.Contains(words, flag) {
			t.Errorf("docs/deploy.md does not list %s under Reload", flag)
		}
	}
}

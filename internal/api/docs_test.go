package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/api"
)

func TestThePageOfConfigurationsListsEveryReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "addons-configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Reasons")
	for _, reason := range []api.Reason{
		api.LoadingError, api.FetchingError, api.ConflictInSpecifiedRepositories, api.ConflictWithAlreadyRegisteredAddon,
		api.RegisteringError, api.FetchingIndexError, api.TemplatingURLError, api.EmptyURLError,
	} {
		if strings.Count(table, "\n| `"+string(reason)+"` |") != 1 {
			t.Errorf("the page does not say what to do for %s", reason)
		}
		if reason.Remedy() == "" {
			t.Errorf("nothing says what to do about %s", reason)
		}
	}
	if !strings.Contains(string(page), "The finalizer `"+api.Finalizer+"`") {
		t.Error("the page does not name the finalizer")
	}
}

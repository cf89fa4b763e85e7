package api_test

import (
	"errors"
	"testing"

	"addon-operator/internal/api"
)

func TestMessagesKeepTheirTemplates(t *testing.T) {
	t.Parallel()
	long := errors.New("some error:a:b:c:d")
	for reason, want := range map[api.Reason]string{
		api.FetchingError:      "Fetching failed due to error: 'some error:a:b:c'",
		api.LoadingError:       "Loading failed due to error: 'some error:a:b:c:d'",
		api.RegisteringError:   "Registering failed due to error: 'some error:a:b:c:d'",
		api.FetchingIndexError: "Fetching repository failed due to error: 'some error:a:b:c:d'",
		api.TemplatingURLError: "Templating repository URL failed due to error: 'some error:a:b:c:d'",
	} {
		if got := reason.Message(long); got != want {
			t.Errorf("%s:\n got %s\nwant %s", reason, got, want)
		}
	}
	if got, want := api.DuplicateMessage("https://h/index.yaml", "redis", "0.0.1"),
		"Specified repositories have addons with the same ID: [url: https://h/index.yaml, addons: redis:0.0.1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := api.ConflictMessage("c1", "https://h/index.yaml", "redis", "0.0.1"),
		"An addon with the same ID is already registered: [ConfigurationName: c1, url: https://h/index.yaml, addons: redis:0.0.1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

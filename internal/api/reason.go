package api

import (
	"fmt"
	"strings"
)

// A Reason is one word that says why a repository or an addon of a configuration failed.
type Reason string

// The reasons of addons.
const (
	LoadingError                       Reason = "LoadingError"
	FetchingError                      Reason = "FetchingError"
	ConflictInSpecifiedRepositories    Reason = "ConflictInSpecifiedRepositories"
	ConflictWithAlreadyRegisteredAddon Reason = "ConflictWithAlreadyRegisteredAddon"
	RegisteringError                   Reason = "RegisteringError"
)

// The reasons of repositories.
const (
	FetchingIndexError Reason = "FetchingIndexError"
	TemplatingURLError Reason = "TemplatingURLError"
	EmptyURLError      Reason = "EmptyURLError"
)

// EmptyURLMessage is the message in the status of a repository that failed with EmptyURLError.
const EmptyURLMessage = "Repository URL is empty; set spec.repositories[].url to the address of an index file"

// fetchingErrorSegments is the maximum number of colon-separated parts of an error in the message of a FetchingError.
// The rest of the error is cut off. Clients rely on this number.
const fetchingErrorSegments = 4

// Message returns the message for the status of a repository or addon that failed with reason r because of err.
func (r Reason) Message(err error) string {
	text := err.Error()
	switch r {
	case FetchingError:
		parts := strings.Split(text, ":")
		return fmt.Sprintf("Fetching failed due to error: '%s'", strings.Join(parts[:min(len(parts), fetchingErrorSegments)], ":"))
	case LoadingError:
		return fmt.Sprintf("Loading failed due to error: '%s'", text)
	case RegisteringError:
		return fmt.Sprintf("Registering failed due to error: '%s'", text)
	case FetchingIndexError:
		return fmt.Sprintf("Fetching repository failed due to error: '%s'", text)
	case TemplatingURLError:
		return fmt.Sprintf("Templating repository URL failed due to error: '%s'", text)
	default:
		return text
	}
}

// DuplicateMessage returns the message for an addon that failed with ConflictInSpecifiedRepositories. The arguments
// describe the other addon of the configuration that has the same ID.
func DuplicateMessage(url, name, version string) string {
	return fmt.Sprintf("Specified repositories have addons with the same ID: [url: %s, addons: %s:%s]", url, name, version)
}

// ConflictMessage returns the message for an addon that failed with ConflictWithAlreadyRegisteredAddon. The arguments
// describe the registered addon that has the same ID.
func ConflictMessage(configuration, url, name, version string) string {
	return fmt.Sprintf("An addon with the same ID is already registered: [ConfigurationName: %s, url: %s, addons: %s:%s]",
		configuration, url, name, version)
}

// ImageConflictMessage returns the message for an addon that failed with ConflictWithAlreadyRegisteredAddon because it
// has the name of a module in the operator's image. path is the directory of this module.
func ImageConflictMessage(module, path string) string {
	return fmt.Sprintf("An addon with the same ID is already registered: [ConfigurationName: %s, url: %s, addons: %s]",
		ImageConfiguration, path, module)
}

// ImageConfiguration replaces the name of a configuration in the message about an addon that conflicts with a module in
// the operator's image.
const ImageConfiguration = "modules-dir"

// remedies says for each reason what a user must do.
var remedies = map[Reason]string{
	LoadingError:                       "correct the addon as the message says",
	FetchingError:                      "check the server; if it is an HTTP server, publish the archive <name>-<version>.tgz beside the index",
	ConflictInSpecifiedRepositories:    "remove one of the two addons or repositories, or give one of the addons its own ID, and its own name or version, in meta.yaml",
	ConflictWithAlreadyRegisteredAddon: "remove the addon from one of the two configurations, or give it its own ID, and its own name or version, in meta.yaml",
	RegisteringError:                   "divide the repositories among several configurations, or shorten the texts that the message names",
	FetchingIndexError:                 "check the URL, the server and the index",
	TemplatingURLError:                 "create the Secret with a key for each placeholder, or correct secretRef; then increment spec.reprocessRequest, because Secrets are not watched",
	EmptyURLError:                      "set spec.repositories[].url",
}

// Remedy returns what a user must do about a repository or addon that failed with reason r.
func (r Reason) Remedy() string { return remedies[r] }

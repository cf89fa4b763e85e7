package api

import (
	"fmt"
	"strings"
)

// A Reason is the reason why a repository or an addon failed, in one word.
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

// EmptyURLMessage is the message of EmptyURLError.
const EmptyURLMessage = "Repository URL is empty; set spec.repositories[].url to the address of an index file"

// fetchingErrorSegments is the number of colon-separated parts of an error that the message of FetchingError keeps.
// Clients rely on this number.
const fetchingErrorSegments = 4

// Message returns the message of an error with the reason r.
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

// DuplicateMessage returns the message of ConflictInSpecifiedRepositories. The arguments describe
// the addon that holds the ID.
func DuplicateMessage(url, name, version string) string {
	return fmt.Sprintf("Specified repositories have addons with the same ID: [url: %s, addons: %s:%s]", url, name, version)
}

// ConflictMessage returns the message of ConflictWithAlreadyRegisteredAddon. The arguments describe
// the registered addon.
func ConflictMessage(configuration, url, name, version string) string {
	return fmt.Sprintf("An addon with the same ID is already registered: [ConfigurationName: %s, url: %s, addons: %s:%s]",
		configuration, url, name, version)
}

// ImageConflictMessage returns the message of ConflictWithAlreadyRegisteredAddon for an addon that has the name of a
// module of the image. path is the directory of that module.
func ImageConflictMessage(module, path string) string {
	return fmt.Sprintf("An addon with the same ID is already registered: [ConfigurationName: %s, url: %s, addons: %s]",
		ImageConfiguration, path, module)
}

// ImageConfiguration is the ConfigurationName in messages about modules of the image.
const ImageConfiguration = "modules-dir"

// remedies has the advice for each reason.
var remedies = map[Reason]string{
	LoadingError:                       "correct the addon as the message says",
	FetchingError:                      "publish the archive <name>-<version>.tgz beside the index",
	ConflictInSpecifiedRepositories:    "remove one of the two repositories, or give the addon an ID, and a name or version, of its own in meta.yaml",
	ConflictWithAlreadyRegisteredAddon: "remove the addon from one of the two configurations, or give it an ID, and a name or version, of its own in meta.yaml",
	RegisteringError:                   "divide the repositories among several configurations, or shorten the texts that the message names",
	FetchingIndexError:                 "check the URL, the server and the index",
	TemplatingURLError:                 "create the Secret with a key for each placeholder, or correct secretRef; then increment spec.reprocessRequest, as Secrets are not watched",
	EmptyURLError:                      "set spec.repositories[].url",
}

// Remedy returns advice on how to solve a problem with reason r.
func (r Reason) Remedy() string { return remedies[r] }

package catalog

import (
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

	"addon-operator/internal/tree"
)

// parseVersion parses a semantic version. The text may begin with v, and may lack the patch number, or the minor and
// patch numbers.
func parseVersion(text string) (*semver.Version, error) {
	version, err := semver.NewVersion(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a semantic version; write it like 1.2.3", tree.Excerpt(text))
	}
	return version, nil
}

// NormalizeVersion returns the canonical form of a semantic version: for "v1.0" it returns "1.0.0". NormalizeVersion
// returns any other text unchanged.
func NormalizeVersion(text string) string {
	version, err := parseVersion(text)
	if err != nil {
		return text
	}
	return version.String()
}

// CompareVersions compares a and b as semantic versions. Like [strings.Compare], it returns -1, 0 or 1. A text that is
// not a version is greater than all versions. Two such texts are compared as texts.
func CompareVersions(a, b string) int {
	v, errV := semver.NewVersion(a)
	w, errW := semver.NewVersion(b)
	switch {
	case errV == nil && errW == nil:
		return v.Compare(w)
	case errV == nil:
		return -1
	case errW == nil:
		return 1
	}
	return strings.Compare(a, b)
}

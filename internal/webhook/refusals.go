package webhook

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusedError contains the errors of webhooks that the API server rejects, and the bindings of
// these webhooks. The keys of its maps are the URL paths of the bindings.
type refusedError struct {
	why map[string]error
	of  map[string]Admission
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%d webhooks are rejected by the API server", len(e.why))
}

// fieldOf matches the name of the invalid field in an error about one webhook of a configuration.
var fieldOf = regexp.MustCompile(`^webhooks\[(\d+)\](.*)$`)

// refusals returns a [*refusedError] if err contains errors about single webhooks. Otherwise it
// returns err. The parameter "of" has the binding of each webhook, in the order of the webhooks.
func refusals(err error, of []Admission) error {
	var known apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &known) || known.Status().Details == nil {
		return err
	}
	refusal := &refusedError{why: map[string]error{}, of: map[string]Admission{}}
	for _, cause := range known.Status().Details.Causes {
		match := fieldOf.FindStringSubmatch(cause.Field)
		if match == nil {
			continue
		}
		i, convErr := strconv.Atoi(match[1])
		if convErr != nil || i >= len(of) {
			continue
		}
		path := of[i].path()
		refusal.of[path] = of[i]
		refusal.why[path] = errors.Join(refusal.why[path], fmt.Errorf("%s: %s", strings.TrimPrefix(match[2], "."), cause.Message))
	}
	if len(refusal.why) == 0 {
		return err
	}
	return refusal
}

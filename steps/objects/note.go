package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/workflow"
)

// A note records which operations of a task are done or rejected. It is written only if the cluster does not show that
// an operation is done or rejected.
type note struct {
	// Settled is the number of operations that are done or rejected. No later attempt carries out these operations
	// again.
	Settled int `json:"settled"`
	// Refused has the errors of the first rejected operations. The field More is the number of the other rejected
	// operations.
	Refused []string `json:"refused,omitempty"`
	More    int      `json:"more,omitempty"`
	// Unserved are the kinds that the API server did not serve in time.
	Unserved []string `json:"unserved,omitempty"`
	// Mark describes the request of the first operation that is neither done nor rejected. It is saved before this
	// request is sent; nil if the request is not prepared yet, or if its operation needs no mark. A deletion of an
	// object that does not exist saves a mark without a request.
	Mark *operation.Mark `json:"mark,omitempty"`
}

// maxRefused is the maximum number of rejected operations of one run that are reported in full.
const maxRefused = 20

// refuse adds the reason why an operation was rejected.
func (n *note) refuse(s step, err error) {
	if kind := s.kind(); errors.Is(err, kube.ErrNotServed) && len(n.Unserved) < maxRefused && !slices.Contains(n.Unserved, kind) {
		n.Unserved = append(n.Unserved, kind)
	}
	if len(n.Refused) == maxRefused {
		n.More++
		return
	}
	n.Refused = append(n.Refused, fmt.Sprintf("%s: %v", s, err))
}

// err returns one error for all rejected operations; nil if none was rejected.
func (n *note) err() error {
	if len(n.Refused) == 0 {
		return nil
	}
	text := strings.Join(n.Refused, "; ")
	if n.More > 0 {
		text += fmt.Sprintf("; and %d more", n.More)
	}
	return workflow.Refused(fmt.Errorf("$KUBERNETES_PATCH_PATH: %s", text))
}

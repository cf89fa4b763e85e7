package jq

import (
	"context"
	"encoding/json"
)

// ApplyHere runs a filter in this process if Apply would first try to run it there. The result ran says whether
// ApplyHere has tried to run it.
func ApplyHere(ctx context.Context, f *Filter, in *Input) (result json.RawMessage, ran bool, err error) {
	if f == nil || !f.plain.fits(len(in.text)) {
		return nil, false, nil
	}
	tree, err := in.decoded()
	if err != nil {
		return nil, false, err
	}
	result, err = f.here(ctx, tree)
	return result, true, err
}

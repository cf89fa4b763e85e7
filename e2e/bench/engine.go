package main

import (
	"context"
	"io"
)

func measureEngine(context.Context, int, io.Writer) ([]figure, error) { return nil, nil }

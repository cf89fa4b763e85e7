package workflow

func unused() { lonely() }

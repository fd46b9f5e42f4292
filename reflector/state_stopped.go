package reflector

// stopped: Run's context has ended, and Run returns.
//
// Exits: none. It is entered from every state, with reason.Stopped.
type stopped struct{}

func (stopped) name() State    { return StateStopped }
func (stopped) detail() string { return "" }

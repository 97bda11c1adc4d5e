// Judges the histories of crates/history/examples/histories.rs with Porcupine, and compares the verdicts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Call   int64
	Input  *int64
	Return *int64
	Output int64
}

type history struct {
	Of           string
	Linearizable bool
	Operations   []operation
}

// The output of an operation, if it was seen.
type seen struct {
	known bool
	value int64
}

// Without an input the register is read.
var models = map[string]func(state int64, input *int64) int64{
	"counter": func(state int64, input *int64) int64 { return state + *input },
	"register": func(state int64, input *int64) int64 {
		if input == nil {
			return state
		}
		return *input
	},
}

func model(of string) porcupine.Model {
	after := models[of]
	return porcupine.Model{
		Init: func() interface{} { return int64(0) },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			next := after(state.(int64), input.(*int64))
			saw := output.(seen)
			return !saw.known || saw.value == next, next
		},
	}
}

func judge(h history) bool {
	all := make([]porcupine.Operation, len(h.Operations))
	for n, o := range h.Operations {
		// Without a result it may take effect after all others, where nothing shows it.
		all[n] = porcupine.Operation{ClientId: n, Input: o.Input, Call: o.Call, Output: seen{}, Return: math.MaxInt64}
		if o.Return != nil {
			all[n].Output, all[n].Return = seen{true, o.Output}, *o.Return
		}
	}
	return porcupine.CheckOperations(model(h.Of), all)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	count, linearizable, differ := 0, 0, 0
	for lines.Scan() {
		var h history
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil || models[h.Of] == nil {
			fmt.Fprintln(os.Stderr, "error: not a history:", lines.Text(), err)
			os.Exit(2)
		}
		count++
		found := judge(h)
		if found {
			linearizable++
		}
		if found != h.Linearizable {
			differ++
			fmt.Println("differs:", lines.Text())
		}
	}
	fmt.Printf("porcupine: %d histories, %d linearizable, %d verdicts differ\n", count, linearizable, differ)
	if differ > 0 || count == 0 || linearizable == 0 || linearizable == count {
		os.Exit(1)
	}
}

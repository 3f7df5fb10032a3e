;; The segments of one source, of the text of a source map's mappings (ECMA-426: numbers in base64 VLQ). In WebAssembly, as that is
;; fast from the first byte on: V8 runs such a loop of JavaScript slowly until it has compiled it, which a start waits for.
;; scripts/wasm.ts makes src/capture/source/segments-wasm.ts of it.
(module
  ;; 0 to 255: the values of the characters, 0 to 63 digits (those above 31 go on), 64 a comma, 65 a semicolon, 66 nothing of a map.
  ;; 256 to 287: the fields as they stand: column, source, its line, its column, name; the rest is room for segments that have more.
  ;; From 288 the text, a byte of value 66 behind it, and what is found.
  (memory (export "memory") 1)

  ;; Writes line, column, source's line, source's column and name (-1: none) of each segment from `found` on.
  ;; Returns where they end; -1 where this is no text of mappings.
  (func (export "segmentsOf") (param $at i32) (param $end i32) (param $source i32) (param $found i32) (result i32)
    (local $value i32) (local $digit i32) (local $shift i32) (local $line i32) (local $field i32) (local $place i32)

    (loop $next
      ;; At the end as at a comma.
      (local.set $value (i32.const 64))
      (if (i32.lt_u (local.get $at) (local.get $end))
        (then (local.set $value (i32.load8_u (i32.load8_u (local.get $at))))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))

      (if (i32.lt_u (local.get $value) (i32.const 64))
        (then
          (if (i32.gt_u (local.get $value) (i32.const 31))
            (then
              (local.set $value (i32.and (local.get $value) (i32.const 31)))
              (local.set $shift (i32.const 5))
              (loop $more
                (local.set $digit (i32.load8_u (i32.load8_u (local.get $at))))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (if (i32.gt_u (local.get $digit) (i32.const 63)) (then (return (i32.const -1))))
                (local.set $value
                  (i32.or (local.get $value) (i32.shl (i32.and (local.get $digit) (i32.const 31)) (local.get $shift))))
                (local.set $shift (i32.add (local.get $shift) (i32.const 5)))
                (br_if $more (i32.gt_u (local.get $digit) (i32.const 31))))))
          ;; The lowest bit is the sign.
          (local.set $digit (i32.shr_u (local.get $value) (i32.const 1)))
          (if (i32.and (local.get $value) (i32.const 1))
            (then (local.set $digit (i32.sub (i32.const 0) (local.get $digit)))))
          (local.set $place
            (i32.add (i32.const 256) (i32.shl (i32.and (local.get $field) (i32.const 7)) (i32.const 2))))
          (i32.store (local.get $place) (i32.add (i32.load (local.get $place)) (local.get $digit)))
          (local.set $field (i32.add (local.get $field) (i32.const 1)))
          (br $next)))

      (if (i32.and (i32.gt_u (local.get $field) (i32.const 3)) (i32.eq (i32.load (i32.const 260)) (local.get $source)))
        (then
          (i32.store (local.get $found) (local.get $line))
          (i32.store offset=4 (local.get $found) (i32.load (i32.const 256)))
          (i64.store offset=8 align=4 (local.get $found) (i64.load (i32.const 264)))
          (i32.store offset=16 (local.get $found) (i32.const -1))
          (if (i32.gt_u (local.get $field) (i32.const 4))
            (then (i32.store offset=16 (local.get $found) (i32.load (i32.const 272)))))
          (local.set $found (i32.add (local.get $found) (i32.const 20)))))
      (local.set $field (i32.const 0))

      (if (i32.eq (local.get $value) (i32.const 66)) (then (return (i32.const -1))))
      (if (i32.eq (local.get $value) (i32.const 65))
        (then
          (local.set $line (i32.add (local.get $line) (i32.const 1)))
          (i32.store (i32.const 256) (i32.const 0))))
      (br_if $next (i32.le_u (local.get $at) (local.get $end))))

    (local.get $found)))

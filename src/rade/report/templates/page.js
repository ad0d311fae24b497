"use strict";
(function () {
  function value(row, index) {
    var cell = row.cells[index];
    var given = cell.getAttribute("data-v");
    if (given === null) { return cell.textContent.trim().toLowerCase(); }
    return given === "" ? null : Number(given);
  }

  function order(a, b) {
    if (a === null || b === null) { return (a === null) - (b === null); }
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function sortable(table) {
    var body = table.tBodies[0];
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, index) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th[aria-sort]").forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var rows = Array.prototype.map.call(body.rows, function (row, place) {
          return { row: row, key: value(row, index), place: place };
        });
        rows.sort(function (a, b) {
          var found = order(a.key, b.key);
          return (down && a.key !== null && b.key !== null ? -found : found) || a.place - b.place;
        });
        // Out of the page while rows move: ten thousand moves in sight would each touch the layout.
        table.removeChild(body);
        rows.forEach(function (entry) { body.appendChild(entry.row); });
        table.appendChild(body);
      });
    });
  }

  function filterable(table) {
    var rows = Array.prototype.slice.call(table.tBodies[0].rows);
    if (rows.length < 6) { return; }
    var box = document.createElement("p");
    var input = document.createElement("input");
    var count = document.createElement("output");
    box.className = "filter";
    input.type = "search";
    input.placeholder = "Filter, e.g. cora rade";
    input.setAttribute("aria-label", "Filter the rows of this table");
    box.appendChild(input);
    box.appendChild(count);
    table.parentNode.parentNode.insertBefore(box, table.parentNode);
    var texts = null;
    var waiting = 0;
    function apply() {
      var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      texts = texts || rows.map(function (row) { return row.textContent.toLowerCase(); });
      var shown = 0;
      rows.forEach(function (row, index) {
        row.hidden = !words.every(function (word) { return texts[index].indexOf(word) >= 0; });
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = words.length ? shown + " of " + rows.length : "";
    }
    input.addEventListener("input", function () {
      clearTimeout(waiting);
      waiting = setTimeout(apply, rows.length > 1000 ? 200 : 0);
    });
  }

  document.querySelectorAll("table.sortable").forEach(function (table) { sortable(table); filterable(table); });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open]):not(.long)"));
    closed.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () { closed.forEach(function (one) { one.open = false; }); });
}());

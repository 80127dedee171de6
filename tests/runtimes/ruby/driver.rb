# SPDX-License-Identifier: Apache-2.0
# A driver for Ruby: codebox-runtime(7) has it as its example.
require 'json'

class Driver
  INCOMPLETE = /unexpected end-of-input|unexpected end of (input|file)|unterminated|expected an? .*end/

  def initialize
    @in, @out, @input = IO.for_fd(3, 'rb'), IO.for_fd(4, 'wb'), $stdin.dup
    [@in, @out, @input].each { |io| io.close_on_exec = true }
    $stdout.sync = $stderr.sync = @out.sync = true # what was printed is in the pipe before the next frame
    STDIN.reopen(File::NULL)
    ENV.delete('CODEBOX_FD')
    @pid, @count, @running = Process.pid, 0, false
    trap('INT') { raise Interrupt, 'interrupted' if @running } # one that comes late does no harm
  end

  def serve
    send(ev: 'ready', language: 'ruby', version: RUBY_VERSION, kind: 'plain')
    while (size = @in.read(4))
      m = JSON.parse(@in.read(size.unpack1('V')))
      case m['op']
      when 'session' then ENV.update(m['environment'])
      when 'run' then run(m)
      when 'is_complete' then send(ev: m['op'], id: m['id'], **completeness(m['code']))
      when 'complete' then send(ev: m['op'], id: m['id'], **completions(m['code'][0, m['cursor']]))
      when 'inspect' then send(ev: m['op'], id: m['id'], text: '')
      end
    end
  end

  private

  def send(frame)
    exit!(0) unless Process.pid == @pid # a child of the cell that came back here
    text = JSON.generate(frame)
    @out.write([text.bytesize].pack('V') + text)
  end

  # What a cell says may be any bytes; a frame is UTF-8.
  def utf8(text)
    text.to_s.encode('UTF-8', invalid: :replace, undef: :replace).scrub
  end

  def run(m)
    done = { ev: 'done', id: m['id'], count: @count += 1, status: 'ok' }
    STDIN.reopen(m['input'] ? @input : File::NULL)
    $stdin = IO.for_fd(0, autoclose: false) # which has read nothing yet
    begin
      @running = true
      data = evaluate(m)
      @running = false
      send(ev: 'result', id: m['id'], count: @count, data: data, metadata: {}) if data
    rescue Interrupt
      done[:status] = 'interrupted'
    rescue SystemExit => e
      done.update(status: 'exit', exit_code: e.status)
    rescue Exception => e # whatever code raises ends the cell, and not the interpreter
      @running = false
      done[:status] = 'error'
      send(ev: 'error', id: m['id'], name: e.class.name || 'Exception', value: utf8(e.message), traceback: traceback(e))
    end
    @running = false
    send(done)
  end

  # A cell's value as MIME types, or nil. A program is a file, whose values are not shown.
  def evaluate(m)
    ARGV.replace(m['argv'].drop(1)) if m['argv']
    if (file = m['file'])
      File.binwrite(file, m['code'].unpack1('m'))
      $0 = file
      eval(File.read(file), TOPLEVEL_BINDING, file, 1)
      return
    end
    value = eval(m['code'], TOPLEVEL_BINDING, "cell #{@count}", 1)
    return if value.nil? || m['silent'] || m['code'].rstrip.end_with?(';')

    data = { 'text/plain' => utf8(value.inspect) }
    data['text/html'] = utf8(value.to_html) if value.respond_to?(:to_html)
    data
  end

  # Without the frames of this file.
  def traceback(error)
    frames = (error.backtrace || []).reject { |line| line.start_with?(__FILE__) }
    return utf8("#{error.message} (#{error.class})\n") if frames.empty?

    error.set_backtrace(frames)
    utf8(error.full_message(highlight: false, order: :top))
  end

  def completeness(code)
    RubyVM::InstructionSequence.compile(code)
    { status: 'complete', indent: '' }
  rescue SyntaxError => e
    e.message.match?(INCOMPLETE) ? { status: 'incomplete', indent: '  ' } : { status: 'invalid', indent: '' }
  end

  # Of a variable or constant, its methods; else what can be called by name. No code is run for that.
  def completions(before)
    word = before[/[\w@$]*\z/]
    owner = before[/([A-Za-z_]\w*)\.\w*\z/, 1]
    names = owner ? methods_of(owner) : TOPLEVEL_BINDING.local_variables + Object.constants + Object.private_instance_methods
    matches = names.map(&:to_s).select { |name| name.start_with?(word) }.sort.uniq.first(100)
    { matches: matches, start: before.length - word.length, end: before.length }
  end

  def methods_of(name)
    scope = TOPLEVEL_BINDING
    return scope.local_variable_get(name).public_methods if scope.local_variables.include?(name.to_sym)

    name.match?(/\A[A-Z]/) && Object.const_defined?(name) ? Object.const_get(name).public_methods : []
  end
end

Driver.new.serve
